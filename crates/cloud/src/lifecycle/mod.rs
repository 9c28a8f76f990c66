//! Lets Nodes follow the fate of their machines: one whose machine is stopped is tainted, one whose machine is gone is
//! deleted.
//!
//! - **Promise**: a Node that is not Ready and whose machine does not exist any more is deleted; one whose machine is
//!   shut down carries the taint `node.cloudprovider.kubernetes.io/shutdown` until it is Ready again. A Node that is
//!   Ready is never looked up, and never deleted.
//! - **Watches** Nodes, and asks the cloud in rounds, `--node-monitor-period` apart. **Writes** that one taint, and
//!   deletes Nodes.
//! - Upstream: `cloud-provider/controllers/nodelifecycle`. What differs: a Node is deleted only if it still is the one
//!   that was looked at, and several machines are asked about at once.

pub mod invariants;
pub mod plan;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use flyball_api::Node;
use flyball_runtime::metrics::RunningController;
use flyball_runtime::{Context, StartError, Tasks};

use crate::surroundings::{cloud, lacking};

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let instances = cloud(&cx)?.instances.clone().ok_or_else(|| lacking("instances"))?;
    let nodes = cx.informer::<Node>();
    tasks.needs(&nodes);
    let running = RunningController::new(&cx.metrics, cx.component, "cloud-node-lifecycle");
    let period = cx.config.kube_cloud_shared.node_monitor_period;
    tasks.spawn("rounds", sync::Controller { cx, instances, nodes, running }.run(period));
    Ok(())
}
