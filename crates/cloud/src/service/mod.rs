//! Gives Services of type LoadBalancer a load balancer of the cloud that points to the cluster's nodes.
//!
//! - **Promise**: a Service of type LoadBalancer without a class has a load balancer with its ports and the current nodes, and
//!   its status has the address. The load balancer of a Service that does not ask for one any more, or is deleted, is
//!   deleted first: the finalizer `service.kubernetes.io/load-balancer-cleanup` is set before the load balancer is created
//!   and removed after it is deleted.
//! - **Watches** Services and Nodes. **Writes** of a Service: that finalizer and `status.loadBalancer`, both through
//!   the status.
//! - Upstream: `cloud-provider/controllers/service`. What differs: there is never more than one sync of a Service at once,
//!   not even when nodes change; the load balancer of a Service that was deleted without its finalizer is deleted, too; a
//!   Service in deletion that never had one is left alone; a status that differs only by what the API server has filled in
//!   (`ipMode`) is not written again; a change of nodes ends the backoff of a Service whose load balancer
//!   could not be ensured (upstream updates its nodes first, and ensures it at once if that fails);
//!   a delay that the cloud asks for (`RetryAfter`) counts for every call (upstream: for those that ensure a load balancer, and for the
//!   deletion for a Service without the finalizer); all changes of nodes are one key of the queue `node` (upstream: one for each
//!   node, so that `workqueue_adds_total` and `service_controller_nodesync_latency_seconds` count more).
//! - There are two shells: `sync` changes load balancers; `nodes` queues the Services that a change of nodes concerns.

pub mod backends;
pub mod invariants;
mod metrics;
mod nodes;
pub mod plan;
mod records;
pub mod status;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Node, Service};
use flyball_queue::Backoff;
use flyball_runtime::metrics::RunningController;
use flyball_runtime::{Context, StartError, Tasks};

use self::metrics::ServiceMetrics;
use self::records::Records;
use crate::surroundings::{cloud, lacking, workers};

const EVENT_SOURCE: &str = "service-controller";
/// Calls to clouds are slow, and failures last.
const BACKOFF: Backoff =
    Backoff { base: Duration::from_secs(5), max: Duration::from_secs(300), rate: 0.0, burst: 0.0 };

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let balancers = cloud(&cx)?.load_balancers.clone();
    let balancers = balancers.ok_or_else(|| lacking("external load balancers"))?;
    let (services, nodes) = (cx.informer::<Service>(), cx.informer::<Node>());
    let queue = tasks.queue_with("service", BACKOFF);
    let node_queue = tasks.queue_with("node", BACKOFF);
    tasks.feed(&services, &queue, triggers::service_changed);
    tasks.feed(&nodes, &node_queue, triggers::node_changed);
    let records = Arc::new(Records::default());
    let metrics = ServiceMetrics::new(&cx.metrics);
    let at_once = workers(cx.config.service_controller.concurrent_service_syncs);
    let node_changes = nodes::NodeChanges {
        nodes: nodes.clone(),
        services: queue.clone(),
        records: records.clone(),
        metrics: metrics.clone(),
    };
    let running = RunningController::new(&cx.metrics, cx.component, "service");
    let controller = sync::Controller {
        events: cx.events.with_source(EVENT_SOURCE),
        cluster: cx.config.kube_cloud_shared.cluster_name.clone(),
        queue: queue.clone(),
        cx,
        balancers,
        services,
        nodes,
        records,
        metrics,
    };
    // The gauge is 1 while this task runs, which starts and ends with the workers.
    tasks.spawn("running", async move {
        running.begin();
        std::future::pending::<()>().await;
    });
    tasks.workers(&node_queue, 1, Arc::new(node_changes));
    tasks.workers(&queue, at_once, Arc::new(controller));
    Ok(())
}
