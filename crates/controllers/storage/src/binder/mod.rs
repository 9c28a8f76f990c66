//! Gives every claim a volume, and decides what becomes of a volume whose claim is gone.
//!
//! - **Promise**: a claim and a volume that suit each other come to be bound, one to one; which volume is
//!   [`matching`]'s business, when [`claim`]'s. A claim that nothing suits gets the default class if it left its class
//!   open, and an external provisioner is asked for a volume by annotation. A volume whose claim is gone is released,
//!   then kept, deleted or recycled as its policy says ([`volume`], [`plugins`]).
//! - **Watches** volumes, claims, storage classes and pods; looks again at what is not at rest every
//!   `--pvclaimbinder-sync-period`, as upstream does: only then does a waiting claim see a new volume, so that it gets
//!   the best of those that came together.
//! - **Writes** volumes and claims, spec and status; recycler pods.
//! - Upstream: `pkg/controller/volume/persistentvolume`. What differs: the name of a directory made by the host path
//!   provisioner follows from its claim, so that trying again makes no second one; a recycler pod is followed through
//!   the cache; a claim or volume at rest is not looked at again without cause.

mod claim;
mod delete;
mod edit;
mod host_path;
pub mod invariants;
mod latest;
mod matching;
mod metrics;
mod plugins;
mod provision;
mod recycle;
mod recycler;
mod relay;
mod resync;
mod sync;
#[cfg(test)]
mod tests;
mod triggers;
mod volume;
mod write;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::{Node, PersistentVolume, PersistentVolumeClaim, StorageClass};
use flyball_runtime::{Context, StartError, Tasks};

use crate::usage::BY_CLAIM;
use latest::Latest;
pub(crate) use matching::size;
use recycler::Recycler;
use sync::{Binder, Claims, Volumes};

/// The component that tells users.
const SOURCE: &str = "persistentvolume-controller";
/// No flag can make the looking again a busy loop.
const SHORTEST_PERIOD: Duration = Duration::from_millis(100);

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let (claim_queue, volume_queue) = (tasks.queue("claims"), tasks.queue("volumes"));
    let (claims, volumes) = (cx.informer::<PersistentVolumeClaim>(), cx.informer::<PersistentVolume>());
    let (classes, pods, nodes) = (cx.informer::<StorageClass>(), cx.informer::<Pod>(), cx.informer::<Node>());
    pods.index(&BY_CLAIM);
    volumes.index(&triggers::PROMISED);
    volumes.index(&triggers::FREE);
    let recycler =
        Recycler::new(&cx.config.persistent_volume_binder_controller.volume_configuration.recycler)?;

    tasks.needs(&classes);
    tasks.needs(&nodes);
    tasks.feed(&claims, &claim_queue, triggers::claim_changed);
    tasks.feed(&volumes, &claim_queue, triggers::volume_gone);
    tasks.feed(&volumes, &volume_queue, triggers::volume_changed);
    tasks.feed(&claims, &volume_queue, {
        let store = volumes.store().clone();
        move |change| triggers::claim_gone(change, &store)
    });
    tasks.feed(&pods, &volume_queue, triggers::recycler_changed);

    metrics::collect(&cx.metrics, volumes.store().clone(), claims.store().clone());
    let period = cx.config.persistent_volume_binder_controller.pv_claim_binder_sync_period;
    let binder = Arc::new(Binder {
        events: cx.events.with_source(SOURCE),
        operations: metrics::Operations::new(cx.metrics.clone()),
        cx,
        claims: Latest::new(claims),
        volumes: Latest::new(volumes),
        classes,
        pods,
        nodes,
        recycler,
        claim_queue: claim_queue.clone(),
        began: OnceLock::new(),
        moments: Default::default(),
    });
    tasks.workers(&claim_queue, 1, Arc::new(Claims(binder.clone())));
    tasks.workers(&volume_queue, 1, Arc::new(Volumes(binder.clone())));
    let again = resync::run(binder, claim_queue, volume_queue, period.max(SHORTEST_PERIOD));
    tasks.spawn("resync", again);
    Ok(())
}
