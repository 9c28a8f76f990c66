//! Creates a claim for every generic ephemeral volume of a pod.
//!
//! - **Promise**: a pod that is not being deleted has a claim of its own for each such volume, from the volume's template,
//!   named after pod and volume. A claim of that name that does not belong to the pod is left alone, and the pod gets an
//!   event.
//! - **Watches** pods and claims. **Writes** claims, by creating them; the pod owns them, so that the garbage collector
//!   deletes them with it.
//! - **Files**: no `status.rs` and no `invariants.rs`, as claims are only created.
//! - Upstream: `pkg/controller/volume/ephemeral`.

pub mod plan;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::PersistentVolumeClaim;
use flyball_api::pod::Pod;
use flyball_runtime::{Context, StartError, Tasks};

use crate::usage::BY_CLAIM;

const EVENT_SOURCE: &str = "ephemeral_volume";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("ephemeral_volume");
    let (pods, claims) = (cx.informer::<Pod>(), cx.informer::<PersistentVolumeClaim>());
    pods.index(&BY_CLAIM);
    tasks.feed(&pods, &queue, triggers::pod_changed);
    let store = pods.store().clone();
    tasks.feed(&claims, &queue, move |change| triggers::claim_changed(change, &store));
    let workers = cx.config.ephemeral_volume_controller.concurrent_ephemeral_volume_syncs;
    cx.metrics.show(&[&sync::CREATED, &sync::FAILED]);
    let controller = sync::Controller { events: cx.events.with_source(EVENT_SOURCE), cx, pods, claims };
    tasks.workers(&queue, workers.unsigned_abs() as usize, Arc::new(controller));
    Ok(())
}
