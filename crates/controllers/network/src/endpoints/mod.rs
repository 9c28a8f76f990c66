//! Publishes the pods behind each Service in one Endpoints object, for clients that do not read EndpointSlices.
//!
//! - **Promise**: once a Service and its pods stop changing, its Endpoints hold the address of every selected pod
//!   in the Service's first family, ready or not, up to a thousand addresses. They are deleted with the Service.
//! - **Watches** Services, Pods and Endpoints. **Writes** the Endpoints of Services that have a selector, and
//!   deletes those of deleted Services. ExternalName Services are ignored.
//! - Upstream: `pkg/controller/endpoint`. What differs: truncated Endpoints that are up to date are not written again,
//!   a deletion is sent only if the Endpoints exist, ports and subsets are sorted by their contents instead of by a hash,
//!   retries do not end after fifteen attempts, and the event that Endpoints could not be created is in the namespace of
//!   the Service instead of `default`.

pub mod invariants;
pub mod plan;
pub mod subsets;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Endpoints, Service};
use flyball_runtime::{Context, StartError, Tasks};

use crate::members;

/// The value of the `managed-by` label of its Endpoints, and the source of its events.
pub const MANAGER: &str = "endpoint-controller";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let config = &cx.config.endpoint_controller;
    let (workers, batch_period) = (config.concurrent_endpoint_syncs, config.endpoint_updates_batch_period);
    let queue = tasks.queue("endpoint");
    let (services, pods, endpoints) =
        (cx.informer::<Service>(), cx.informer::<Pod>(), cx.informer::<Endpoints>());
    tasks.feed(&services, &queue, |change| [change.key()]);
    members::feed(tasks, &queue, &services, &pods, batch_period);
    tasks.feed(&endpoints, &queue, triggers::endpoints_changed);
    let controller = sync::Controller {
        events: cx.events.with_source(MANAGER),
        trigger_times: Default::default(),
        cx,
        services,
        pods,
        endpoints,
    };
    tasks.workers(&queue, usize::try_from(workers).unwrap_or(1), Arc::new(controller));
    Ok(())
}
