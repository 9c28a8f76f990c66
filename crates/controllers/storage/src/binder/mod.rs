//! Binds claims and volumes to each other, and reclaims volumes whose claim is gone.
//!
//! - **Promise**: a claim and a volume that suit each other become bound, one to one. A claim that no volume suits gets the
//!   default class if it names none, and an annotation requests a volume from its provisioner. A volume whose claim is gone
//!   is released, then kept, deleted or recycled as its policy says.
//! - **Watches** volumes, claims, storage classes, pods and nodes. Every `--pvclaimbinder-sync-period` a resync looks at
//!   what is not settled, as upstream does: only then does a waiting claim see a new volume, so that it gets the best of
//!   those that were created together.
//! - **Writes** volumes and claims, spec and status; recycler pods.
//! - **Files**: there are two queues. `claim` (with `matching` and `provision`) and `volume` (with `reclaim` and `plugins`)
//!   each have a `plan`; `edit` and `writes` are the bodies of the writes; `results` says what to
//!   remember once a plan was executed. There is no `status.rs`, as binding writes specs
//!   and statuses in one sequence. `relay` is async, as it has a watch of its own: one task for each recycler pod
//!   of this process, which ends with the pod.
//! - **Live reads and local operations decide**: a claim that the cache lacks, a volume that is to be reclaimed and a volume
//!   that may exist already are read from the server; host path directories are created and removed here. `need` says
//!   which of these comes next, and its result becomes part of the view.
//! - Upstream: `pkg/controller/volume/persistentvolume`. What differs: the directory of a host path volume follows from its
//!   claim, so that a second attempt creates no second one; only directories below `/tmp` are deleted, where upstream also
//!   deletes those that have `/tmp/` elsewhere in their path; a recycler pod is followed through the cache, and after one that
//!   the server refuses or that fails, the next one comes with backoff (upstream: at every sync); a volume that was emptied and
//!   could not be freed is not emptied again; a host path volume that the server refuses is tried again with backoff (upstream:
//!   five times in 50 s, then at every sync), and that its directory is removed again is no failure (upstream then looks for
//!   the finalizer of the volume, which does not exist); a lost race (409) for the annotation of a provisioner gets no event;
//!   settled claims and volumes are not synced again without a change. As informers of different kinds lag each other, two
//!   things are waited for before a claim is acted upon: for its class, once, if the cache of classes is behind the claim
//!   (`awaits_class`; upstream emits an event about the missing class), and for a volume that suits it and was created before it, until the
//!   volume has a phase (`is_coming`; upstream would have another volume provisioned).

mod claim;
mod edit;
mod host_path;
pub mod invariants;
mod latest;
mod matching;
mod metrics;
mod operations;
mod plugins;
mod provision;
mod reclaim;
mod recycler;
mod relay;
mod results;
mod resync;
mod sync;
#[cfg(test)]
mod tests;
mod triggers;
mod volume;
mod writes;

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Node, PersistentVolume, PersistentVolumeClaim, StorageClass};
use flyball_runtime::config::Config;
use flyball_runtime::{Context, StartError, Tasks};

use crate::usage::BY_CLAIM;
use latest::Latest;
pub(crate) use matching::size;
pub(crate) use metrics::observe;
use recycler::Recycler;
use sync::{Binder, Claims, Volumes};

const EVENT_SOURCE: &str = "persistentvolume-controller";

/// Whether it can be set up: reads the templates of recycler pods.
pub fn check(config: &Config) -> Result<(), StartError> {
    recycler(config).map(drop)
}

fn recycler(config: &Config) -> Result<Recycler, StartError> {
    Recycler::new(&config.persistent_volume_binder_controller.volume_configuration.recycler)
}

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let (claim_queue, volume_queue) = (tasks.queue("claims"), tasks.queue("volumes"));
    let (claims, volumes) = (cx.informer::<PersistentVolumeClaim>(), cx.informer::<PersistentVolume>());
    let (classes, pods, nodes) = (cx.informer::<StorageClass>(), cx.informer::<Pod>(), cx.informer::<Node>());
    pods.index(&BY_CLAIM);
    volumes.index(&triggers::BY_CLAIM_REF);
    volumes.index(&triggers::UNCLAIMED_BY_CLASS);
    let recycler = recycler(&cx.config)?;

    tasks.needs(&classes);
    tasks.needs(&nodes);
    tasks.feed(&claims, &claim_queue, |change| [change.key()]);
    tasks.feed(&volumes, &claim_queue, triggers::volume_deleted);
    tasks.feed(&volumes, &volume_queue, |change| [change.key()]);
    tasks.feed(&claims, &volume_queue, {
        let store = volumes.store().clone();
        move |change| triggers::claim_deleted(change, &store)
    });
    tasks.feed(&pods, &volume_queue, triggers::pod_changed);

    metrics::collect(&cx.metrics, volumes.store().clone(), claims.store().clone());
    let period = cx.config.persistent_volume_binder_controller.pv_claim_binder_sync_period;
    let binder = Arc::new(Binder {
        events: cx.events.with_source(EVENT_SOURCE),
        operations: operations::Operations::new(cx.metrics.clone()),
        cx,
        claims: Latest::new(claims),
        volumes: Latest::new(volumes),
        classes,
        pods,
        nodes,
        recycler,
        claim_queue: claim_queue.clone(),
        volume_queue: volume_queue.clone(),
        start_version: Default::default(),
        class_delays: Default::default(),
    });
    // One worker each, as a sync of a claim writes volumes and the other way round.
    tasks.workers(&claim_queue, 1, Arc::new(Claims(binder.clone())));
    tasks.workers(&volume_queue, 1, Arc::new(Volumes(binder.clone())));
    tasks.resync(period, move || binder.queue_unsettled());
    Ok(())
}
