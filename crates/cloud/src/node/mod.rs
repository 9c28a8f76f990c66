//! Makes a new machine's Node complete: what machine it is, where it stands, how it is reached. Only then pods may
//! come.
//!
//! - **Promise**: a Node with the taint `node.cloudprovider.kubernetes.io/uninitialized` gets its `spec.providerID`, its
//!   labels of type, zone and region, and further ones of the cloud's, and loses the taint, in one write; then it gets
//!   its addresses. Afterwards its addresses follow the cloud, and its GA labels follow the beta ones.
//! - **Watches** Nodes. **Writes** of a Node: `spec.providerID` and `spec.taints` once, those labels,
//!   `status.addresses`.
//! - Upstream: `cloud-provider/controllers/node`. What differs: addresses that could not be written are written as soon
//!   as possible, not with the next round; two addresses of the same kind are no reason to write in every round; what
//!   a kubelet reports in the meantime is not overwritten.

pub mod addresses;
pub mod invariants;
pub mod labels;
pub mod plan;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::Node;
use flyball_runtime::metrics::RunningController;
use flyball_runtime::{Context, StartError, Tasks};

use crate::surroundings::{cloud, lacking, workers};

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let instances = cloud(&cx)?.instances.clone().ok_or_else(|| lacking("instances"))?;
    let config = &cx.config.cloud;
    let syncs = workers(config.node_controller.concurrent_node_syncs);
    let updates = workers(config.node_controller.status_updates());
    let period = config.node_status_update_frequency;
    let queue = tasks.queue("Nodes");
    let nodes = cx.informer::<Node>();
    tasks.feed(&nodes, &queue, triggers::node_changed);
    let controller = Arc::new(sync::Controller {
        running: RunningController::new(&cx.metrics, cx.component, "cloud-node"),
        numbers: sync::Numbers::new(&cx.metrics),
        owed: Default::default(),
        cx,
        instances,
        nodes,
    });
    tasks.spawn("addresses", controller.clone().follow_addresses(period, updates));
    tasks.workers(&queue, syncs, controller);
    Ok(())
}
