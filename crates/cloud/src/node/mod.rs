//! Initialises new Nodes with data of their cloud: provider ID, labels and addresses. Pods are scheduled only afterwards.
//!
//! - **Promise**: a Node with the taint `node.cloudprovider.kubernetes.io/uninitialized` gets its `spec.providerID` and the
//!   labels for type, zone and region and others of the cloud, and loses the taint, in one write; then it gets its
//!   addresses. From then on its addresses follow the cloud, and its GA labels follow the beta labels.
//! - **Watches** Nodes. **Writes** of a Node: `spec.providerID` and `spec.taints` once, those labels,
//!   `status.addresses`.
//! - Upstream: `cloud-provider/controllers/node`. What differs: addresses that could not be written are retried with
//!   backoff, not in the next round; two addresses of the same type are not written again in every round; an update by
//!   the kubelet in the meantime is not overwritten.
//! - There are two shells: `sync` initialises Nodes; `rounds` updates the addresses of all Nodes periodically.

pub mod addresses;
pub mod invariants;
pub mod labels;
mod metrics;
pub mod plan;
mod rounds;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;
use std::time::Duration;

use flyball_api::Node;
use flyball_runtime::metrics::RunningController;
use flyball_runtime::{Context, Schedule, StartError, Tasks};

use crate::surroundings::{cloud, lacking, workers};

/// A period of zero would leave no time for other tasks.
const SHORTEST_PERIOD: Duration = Duration::from_millis(10);

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let instances = cloud(&cx)?.instances.clone().ok_or_else(|| lacking("instances"))?;
    let config = &cx.config.cloud;
    let syncs = workers(config.node_controller.concurrent_node_syncs);
    let updates = workers(config.node_controller.status_updates());
    let period = config.node_status_update_frequency;
    let queue = tasks.queue("Nodes");
    let nodes = cx.informer::<Node>();
    tasks.feed(&nodes, &queue, triggers::node_changed);
    let addresses = rounds::Addresses {
        instances: instances.clone(),
        nodes: nodes.clone(),
        at_once: updates,
        running: RunningController::new(&cx.metrics, cx.component, "cloud-node"),
    };
    let delays = metrics::Delays::new(&cx.metrics);
    let controller = sync::Controller { cx, instances, nodes, delays, pending_addresses: Default::default() };
    tasks.periodic("addresses", Schedule::every(period.max(SHORTEST_PERIOD)), addresses);
    tasks.workers(&queue, syncs, Arc::new(controller));
    Ok(())
}
