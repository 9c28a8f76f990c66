//! Warns of pods that cannot share a volume on one node because of their SELinux labels.
//!
//! - **Promise**: where a node would mount a volume with a label, every two pods that use it with different labels, or
//!   of which only one lets the volume be mounted so, are told of each other, whether or not they ever meet on a node.
//!   A pod whose own containers disagree is told, too.
//! - **Watches** Pods that have not ended, claims, volumes and CSIDrivers. **Writes** nothing but events. Off by default.
//! - Upstream: `pkg/controller/volume/selinuxwarning`. What differs: pods are watched a second time, for what only this
//!   controller looks at (labels and mounts of containers), so that nobody pays for it where it is off; a pod whose
//!   containers disagree is told once, not again and again; one whose claim is not bound yet waits for that.

pub mod book;
mod metrics;
pub mod mounts;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use flyball_api::{CSIDriver, Key, PersistentVolume, PersistentVolumeClaim};
use flyball_cache::{Filter, Index};
use flyball_runtime::{Context, StartError, Tasks};
use parking_lot::Mutex;
use smol_str::format_smolstr;

use self::mounts::MountingPod;
use crate::disk::Lookup;
use crate::usage::claim_name;

/// Where its events come from.
const EVENT_SOURCE: &str = "selinux_warning";
/// Pods that have ended have their volumes unmounted.
const LIVING: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Pods by the claims that they use.
const BY_CLAIM: Index<MountingPod> = Index::new("claim", |pod, emit| {
    for volume in &pod.volumes {
        if let Some(name) = claim_name(&pod.metadata, volume) {
            emit(&format_smolstr!("{}/{name}", pod.metadata.namespace));
        }
    }
});

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue::<Key>("selinux_warning");
    let pods =
        cx.informers.filtered::<MountingPod>(Filter { fields: Some(LIVING.to_owned()), ..Filter::default() });
    pods.index(&BY_CLAIM);
    let lookup = Lookup {
        claims: cx.informer::<PersistentVolumeClaim>(),
        volumes: cx.informer::<PersistentVolume>(),
        drivers: cx.informer::<CSIDriver>(),
    };
    let book = Arc::new(Mutex::new(book::Book::default()));
    tasks.feed(&pods, &queue, |change| {
        // What matters of a pod never changes, but another pod may have taken its name.
        let is_same = change.old.map(|pod| &pod.metadata.uid) == change.new.map(|pod| &pod.metadata.uid);
        (!is_same || !change.origin.is_fresh()).then(|| change.key())
    });
    tasks.feed(&lookup.claims, &queue, {
        let pods = pods.clone();
        move |change| {
            let bound = |claim: Option<&Arc<PersistentVolumeClaim>>| {
                claim.map(|claim| (claim.spec.volume_name.clone(), claim.status.phase.clone()))
            };
            let is_news = bound(change.old) != bound(change.new);
            let users = is_news.then(|| pods.store().by(&BY_CLAIM, &format_smolstr!("{}", change.key())));
            users.into_iter().flatten().map(|pod| pod.metadata.key())
        }
    });
    tasks.feed(&lookup.volumes, &queue, {
        let pods = pods.clone();
        move |change| {
            let owner = |volume: Option<&Arc<PersistentVolume>>| {
                volume.and_then(|volume| volume.spec.claim_ref.clone())
            };
            let claim = owner(change.new).filter(|_| owner(change.old) != owner(change.new));
            let users = claim.map(|claim| {
                pods.store().by(&BY_CLAIM, &format_smolstr!("{}/{}", claim.namespace, claim.name))
            });
            users.into_iter().flatten().map(|pod| pod.metadata.key())
        }
    });
    tasks.feed(&lookup.drivers, &queue, {
        let book = book.clone();
        move |change| {
            let mounts = |driver: Option<&Arc<CSIDriver>>| {
                driver.is_some_and(|driver| driver.spec.se_linux_mount == Some(true))
            };
            let is_news = mounts(change.old) != mounts(change.new);
            is_news.then(|| book.lock().users_of(&change.key().name)).into_iter().flatten()
        }
    });
    metrics::watch(&cx.metrics, &book);
    let events = cx.events.with_source(EVENT_SOURCE);
    tasks.workers(&queue, 1, Arc::new(sync::Controller { events, pods, lookup, book }));
    Ok(())
}
