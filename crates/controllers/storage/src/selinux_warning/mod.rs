//! Warns of pods that cannot share a volume on one node because of their SELinux labels.
//!
//! - **Promise**: where nodes mount a volume with a label, every two pods that use it with different labels, or with
//!   different change policies, get an event about each other, whether or not they are ever on the same node. A pod whose
//!   own containers have different labels for a volume gets an event, too.
//! - **Watches** Pods that have not ended, claims, volumes and CSIDrivers. **Writes** nothing but events. Off by default.
//! - **Files**: no `status.rs` and no `invariants.rs`, as nothing is written. `registry` remembers how pods use disks.
//! - Upstream: `pkg/controller/volume/selinuxwarning`. What differs: there is a second informer of pods for the fields that
//!   only this controller reads (labels and mounts of containers), so that they cost nothing where it is off; a pod whose claim
//!   is not bound waits for that.

mod metrics;
pub mod mounts;
pub mod plan;
pub mod registry;
mod sync;
#[cfg(test)]
mod tests;
mod triggers;

use std::sync::Arc;

use flyball_api::{CSIDriver, Key, PersistentVolume, PersistentVolumeClaim};
use flyball_cache::Filter;
use flyball_runtime::gates::Gate;
use flyball_runtime::{Context, StartError, Tasks};
use parking_lot::Mutex;

use self::mounts::MountingPod;
use self::registry::Registry;
use crate::disk::Lookup;

const EVENT_SOURCE: &str = "selinux_warning";
/// Pods that have ended have their volumes unmounted.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    // Without it, nodes mount nothing with a label, so that no pods are in conflict.
    if !cx.gates.enabled(Gate::SELinuxMountReadWriteOncePod) {
        return Ok(());
    }
    let queue = tasks.queue::<Key>("selinux_warning");
    let filter = Filter { fields: Some(NOT_ENDED.to_owned()), ..Filter::default() };
    let pods = cx.informers.filtered::<MountingPod>(filter);
    pods.index(&triggers::BY_CLAIM);
    let lookup = Lookup {
        claims: cx.informer::<PersistentVolumeClaim>(),
        volumes: cx.informer::<PersistentVolume>(),
        drivers: cx.informer::<CSIDriver>(),
    };
    let registry = Arc::new(Mutex::new(Registry::default()));
    tasks.feed(&pods, &queue, triggers::pod_changed);
    tasks.feed(&lookup.claims, &queue, {
        let pods = pods.store().clone();
        move |change| triggers::claim_changed(change, &pods)
    });
    tasks.feed(&lookup.volumes, &queue, {
        let pods = pods.store().clone();
        move |change| triggers::volume_changed(change, &pods)
    });
    tasks.feed(&lookup.drivers, &queue, {
        let registry = registry.clone();
        move |change| {
            let is_changed = triggers::is_driver_changed(change);
            is_changed.then(|| registry.lock().users_of(&change.key().name)).into_iter().flatten()
        }
    });
    metrics::collect(&cx.metrics, &registry);
    let events = cx.events.with_source(EVENT_SOURCE);
    tasks.workers(&queue, 1, Arc::new(sync::Controller { cx, events, pods, lookup, registry }));
    Ok(())
}
