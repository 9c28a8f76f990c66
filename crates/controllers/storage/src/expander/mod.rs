//! Hands claims that are to grow to whoever can make them grow.
//!
//! - **Promise**: a bound claim that asks for more than it has is left to an external resizer, and told so; one whose
//!   plugin a CSI driver has taken over is annotated with that driver. Only FlexVolumes, which grow on their node, are
//!   taken through the steps of growing here.
//! - **Watches** claims and volumes. **Writes** the resizer's annotation and the progress of growing (conditions,
//!   allocated resources) through the status of claims, and size and annotation of FlexVolumes.
//! - Upstream: `pkg/controller/volume/expand`. What differs: volumes are read from the cache, not one by one.

pub mod plan;
mod progress;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::{PersistentVolume, PersistentVolumeClaim};
use flyball_runtime::{Context, StartError, Tasks};

/// The component that tells users.
const SOURCE: &str = "volume_expand";
/// As upstream; no flag changes it.
const WORKERS: usize = 10;

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("volume_expand");
    let (claims, volumes) = (cx.informer::<PersistentVolumeClaim>(), cx.informer::<PersistentVolume>());
    tasks.needs(&volumes);
    tasks.feed(&claims, &queue, triggers::claim_changed);
    let controller = sync::Controller { events: cx.events.with_source(SOURCE), cx, claims, volumes };
    tasks.workers(&queue, WORKERS, Arc::new(controller));
    Ok(())
}
