//! Publishes the pods behind each Service in EndpointSlices.
//!
//! - **Promise**: once a Service and its pods stop changing, its slices hold every selected pod that has an
//!   address exactly once per family, with its conditions, ports, node and zone, and no slice holds more endpoints than
//!   the limit. As few slices are written as possible. A pod whose node is not known is left out, and the sync of the
//!   Service is retried.
//! - **Watches** Services, Pods, Nodes and EndpointSlices. **Writes** those EndpointSlices that carry its label,
//!   nothing else. Services of type ExternalName or without a selector are ignored.
//! - Upstream: `pkg/controller/endpointslice` and `k8s.io/endpointslice`. What differs: the write barrier
//!   replaces tracked versions; retries do not end after fifteen attempts; a Service whose pods wait for a node is synced
//!   as soon as a node is added; ties are broken by name; the gauges of slices and endpoints count both families of a
//!   Service (upstream: one of the two).

pub mod families;
pub mod hint_states;
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

use self::hint_states::HintStates;
use crate::members;
use crate::own_writes::OwnWrites;
use crate::slices::{self, BY_SERVICE};

/// The value of the `managed-by` label of its slices.
pub const MANAGER: &str = "endpointslice-controller.k8s.io";
const EVENT_SOURCE: &str = "endpoint-slice-controller";
/// As upstream: failed syncs are expensive to repeat.
const RETRIES: Duration = Duration::from_secs(1);

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let config = &cx.config.endpoint_slice_controller;
    let (workers, batch_period) =
        (config.concurrent_service_endpoint_syncs, config.endpoint_updates_batch_period);
    let capacity = usize::try_from(config.max_endpoints_per_slice).unwrap_or(1);
    let queue = tasks.queue_with("endpoint_slice", Backoff { base: RETRIES, ..Backoff::default() });
    let zones = tasks.queue::<Key>("endpoint_slice_topology");
    let (services, pods) = (cx.informer::<Service>(), cx.informer::<Pod>());
    let (nodes, slices) = (cx.informer::<Node>(), cx.informer::<EndpointSlice>());
    slices.index(&BY_SERVICE);
    let (own_writes, hint_states) = (Arc::new(OwnWrites::default()), Arc::new(HintStates::default()));
    tasks.feed(&services, &queue, |change| [change.key()]);
    members::feed(tasks, &queue, &services, &pods, batch_period);
    tasks.on(&slices, {
        let (queue, own_writes) = (queue.clone(), own_writes.clone());
        let delay = triggers::slice_change_delay(batch_period);
        move |change| {
            if !change.origin.is_fresh() {
                return; // Services are synced themselves
            }
            for key in slices::slice_changed(change, MANAGER, &own_writes) {
                queue.add_after(key, delay);
            }
        }
    });
    tasks.on(&nodes, {
        let (zones, hint_states) = (zones.clone(), hint_states.clone());
        move |change| {
            if triggers::zones_changed(change) {
                hint_states.nodes_changed();
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
        own_writes,
        hint_states,
        waiting_for_nodes: Default::default(),
        queue: queue.clone(),
        capacity,
    });
    tasks.workers(&queue, usize::try_from(workers).unwrap_or(1), controller.clone());
    tasks.workers(&zones, 1, Arc::new(sync::NodesChanged(controller)));
    Ok(())
}
