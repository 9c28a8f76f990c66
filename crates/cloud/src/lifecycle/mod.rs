//! Taints Nodes whose machine is shut down, and deletes Nodes whose machine does not exist any more.
//!
//! - **Promise**: a Node that is not Ready and whose machine does not exist is deleted; one whose machine is shut down has
//!   the taint `node.cloudprovider.kubernetes.io/shutdown` until it is Ready again. The machines of Nodes that
//!   are Ready are not looked up, and these Nodes are never deleted.
//! - **Watches** Nodes, and looks up machines in rounds, `--node-monitor-period` apart. **Writes** that one taint, and
//!   deletes Nodes.
//! - Upstream: `cloud-provider/controllers/nodelifecycle`. What differs: a Node is deleted only if its uid is still the
//!   same, and several machines are looked up concurrently. A Node that is being deleted already is left alone, where upstream
//!   deletes it again in every round, with an event; that it is gone is no failure. A shutdown taint that is there stays as it is,
//!   where upstream removes its value and time.

pub mod invariants;
pub mod plan;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use flyball_api::Node;
use flyball_runtime::metrics::RunningController;
use flyball_runtime::{Context, Schedule, StartError, Tasks};

use crate::surroundings::{cloud, lacking};

/// A period of zero would leave no time for other tasks.
const SHORTEST_PERIOD: Duration = Duration::from_millis(10);

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let instances = cloud(&cx)?.instances.clone().ok_or_else(|| lacking("instances"))?;
    let nodes = cx.informer::<Node>();
    tasks.needs(&nodes);
    let running = RunningController::new(&cx.metrics, cx.component, "cloud-node-lifecycle");
    let schedule = Schedule::every(cx.config.kube_cloud_shared.node_monitor_period.max(SHORTEST_PERIOD));
    tasks.periodic("rounds", schedule, sync::Controller { instances, nodes, running });
    Ok(())
}
