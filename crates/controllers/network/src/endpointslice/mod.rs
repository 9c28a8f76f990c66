//! Publishes the pods behind each Service in EndpointSlices.
//!
//! - **Promise**: once a Service and its pods stop changing, its slices hold every selected pod that has an
//!   address exactly once per family, with its state, ports and place, and no slice holds more endpoints than the
//!   limit. As few slices are written as possible, and a settled Service sees no writes. A pod whose node is not
//!   known waits outside, and the Service is looked at again.
//! - **Watches** Services, Pods, Nodes and EndpointSlices. **Writes** those EndpointSlices that carry its label,
//!   nothing else. Services of type ExternalName or without a selector are left to others.
//! - Upstream: `pkg/controller/endpointslice` and `k8s.io/endpointslice`. What differs: the write barrier stands
//!   for tracked versions; retries end at the longest wait, not after fifteen; a Service whose pods wait for a node
//!   is looked at as soon as a node comes; ties are broken by name.

mod hinted;
pub mod hints;
pub mod invariants;
mod metrics;
pub mod packing;
pub mod plan;
mod sync;
#[cfg(test)]
mod tests;
pub mod topology;
pub mod triggers;

use std::sync::Arc;
use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::{EndpointSlice, Key, Node, Service};
use flyball_queue::Backoff;
use flyball_runtime::{Context, StartError, Tasks, priority};

use crate::ledger::Ledger;
use crate::members;
use crate::slices::{self, BY_SERVICE};

/// How the controller signs its slices.
pub const MANAGER: &str = "endpointslice-controller.k8s.io";
/// Where its events come from.
const EVENT_SOURCE: &str = "endpoint-slice-controller";
/// Failed syncs are rather expensive to repeat.
const RETRIES: Duration = Duration::from_secs(1);

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let config = &cx.config.endpoint_slice_controller;
    let (workers, batch_period) =
        (config.concurrent_service_endpoint_syncs, config.endpoint_updates_batch_period);
    let queue = tasks.queue_with("endpoint_slice", Backoff { base: RETRIES, ..Backoff::default() });
    let zones = tasks.queue::<Key>("endpoint_slice_topology");
    let (services, pods) = (cx.informer::<Service>(), cx.informer::<Pod>());
    let (nodes, slices) = (cx.informer::<Node>(), cx.informer::<EndpointSlice>());
    slices.index(&BY_SERVICE);
    let (ledger, hinted) = (Arc::new(Ledger::default()), Arc::new(hinted::Hinted::default()));
    tasks.feed(&services, &queue, |change| [change.key()]);
    members::feed(tasks, &queue, &services, &pods, batch_period);
    tasks.on(&slices, {
        let (queue, ledger) = (queue.clone(), ledger.clone());
        let delay = triggers::after_slice_change(batch_period);
        move |change| {
            if !change.origin.is_fresh() {
                return; // the Services themselves are looked at
            }
            for key in slices::concerned(change, MANAGER, &ledger) {
                queue.add_after(key, delay);
            }
        }
    });
    tasks.on(&nodes, {
        let (zones, hinted) = (zones.clone(), hinted.clone());
        move |change| {
            if triggers::zones_changed(change) {
                hinted.nodes_changed();
                zones.add(Key::cluster("nodes"), priority(change.origin));
            }
        }
    });
    let controller = Arc::new(sync::Controller {
        events: cx.events.with_source(EVENT_SOURCE),
        numbers: metrics::Numbers::new(cx.metrics.clone()),
        trigger_times: Default::default(),
        cx,
        services,
        pods,
        nodes,
        slices,
        ledger,
        hinted,
        waiting: Default::default(),
        queue: queue.clone(),
    });
    tasks.workers(&queue, usize::try_from(workers).unwrap_or(1), controller.clone());
    tasks.workers(&zones, 1, Arc::new(sync::ZoneWatch(controller)));
    Ok(())
}
