//! Mirrors Endpoints that users write into EndpointSlices, for Services without a selector.
//!
//! - **Promise**: once Endpoints and their Service stop changing, there is one slice for each family and set of
//!   ports in them, with the same addresses, up to the limit of addresses in a subset. The slices are deleted when the
//!   Endpoints or the Service are deleted, the Service gets a selector, or the Endpoints opt out.
//! - **Watches** Endpoints, Services and EndpointSlices. **Writes** those EndpointSlices that carry its label,
//!   nothing else.
//! - Upstream: `pkg/controller/endpointslicemirroring`. What differs: the write barrier replaces tracked
//!   versions. Endpoints that have a label of the slices themselves are not updated in a loop. Retries do not end after
//!   fifteen attempts.

pub mod invariants;
mod metrics;
pub mod mirror;
pub mod plan;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{EndpointSlice, Endpoints, Service};
use flyball_queue::Backoff;
use flyball_runtime::{Context, StartError, Tasks};

use crate::own_writes::OwnWrites;
use crate::slices::{self, BY_SERVICE};

/// The value of the `managed-by` label of its slices.
pub const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
const EVENT_SOURCE: &str = "endpoint-slice-mirroring-controller";
/// As upstream: failed syncs are expensive to repeat.
const RETRIES: Backoff =
    Backoff { base: Duration::from_secs(1), max: Duration::from_secs(100), rate: 10.0, burst: 100.0 };

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let config = &cx.config.endpoint_slice_mirroring_controller;
    let workers = config.mirroring_concurrent_service_endpoint_syncs;
    let batch_period = config.mirroring_endpoint_updates_batch_period;
    let capacity = usize::try_from(config.mirroring_max_endpoints_per_subset).unwrap_or(1);
    let queue = tasks.queue_with("endpoint_slice_mirroring", RETRIES);
    let (endpoints, services, slices) =
        (cx.informer::<Endpoints>(), cx.informer::<Service>(), cx.informer::<EndpointSlice>());
    slices.index(&BY_SERVICE);
    let own_writes = Arc::new(OwnWrites::default());
    tasks.feed(&endpoints, &queue, |change| triggers::endpoints_changed(change).then(|| change.key()));
    tasks.feed(&services, &queue, |change| triggers::service_changed(change).then(|| change.key()));
    tasks.on(&slices, {
        let (queue, own_writes) = (queue.clone(), own_writes.clone());
        move |change| {
            for key in slices::slice_changed(change, MANAGER, &own_writes) {
                queue.add_after(key, batch_period);
            }
        }
    });
    let controller = sync::Controller {
        events: cx.events.with_source(EVENT_SOURCE),
        numbers: metrics::Numbers::new(cx.metrics.clone()),
        cx,
        endpoints,
        services,
        slices,
        own_writes,
        capacity,
    };
    tasks.workers(&queue, usize::try_from(workers).unwrap_or(1), Arc::new(controller));
    Ok(())
}
