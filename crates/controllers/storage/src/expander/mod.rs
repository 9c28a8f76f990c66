//! Starts the expansion of claims that ask for more storage than they have.
//!
//! - **Promise**: a bound claim that requests more than it has is left to an external resizer, with an event; one whose
//!   in-tree plugin was replaced by a CSI driver is annotated with that driver. Only FlexVolumes, whose file systems are
//!   resized by their node, are taken through the steps of expansion here.
//! - **Watches** claims and volumes. **Writes** the resizer's annotation and the progress of an expansion (conditions,
//!   allocated resources) through the status of claims, and capacity and annotation of FlexVolumes.
//! - **Files**: no `status.rs`, as the plan contains the status ([`progress`]); no `invariants.rs`, as sizes only grow and
//!   the simulator checks that on the server.
//! - Upstream: `pkg/controller/volume/expand`. What differs: volumes are read from the cache, not one by one. A
//!   lost race (409) gets no event. Without RecoverVolumeExpansionFailure, every failure gets an event and is retried; upstream
//!   only logs those of the first step and of the last two, and does not retry the last two.

mod flex;
pub mod plan;
mod progress;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::{PersistentVolume, PersistentVolumeClaim};
use flyball_runtime::{Context, StartError, Tasks};

const EVENT_SOURCE: &str = "volume_expand";
/// As upstream; no flag changes it.
const WORKERS: usize = 10;

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("volume_expand");
    let (claims, volumes) = (cx.informer::<PersistentVolumeClaim>(), cx.informer::<PersistentVolume>());
    tasks.needs(&volumes);
    tasks.feed(&claims, &queue, triggers::claim_changed);
    let controller = sync::Controller { events: cx.events.with_source(EVENT_SOURCE), cx, claims, volumes };
    tasks.workers(&queue, WORKERS, Arc::new(controller));
    Ok(())
}
