//! Gives Services of type LoadBalancer what they ask for: a load balancer of the cloud's, pointing to the cluster's nodes.
//!
//! - **Promise**: a Service of type LoadBalancer without a class has a load balancer that fits it and the nodes, and its
//!   status says where. A Service that no longer wants one, or is deleted, has it taken away first: the finalizer
//!   `service.kubernetes.io/load-balancer-cleanup` is there before the load balancer is and goes after it.
//! - **Watches** Services and Nodes. **Writes** of a Service: that finalizer and `status.loadBalancer`, both through
//!   the status.
//! - Upstream: `cloud-provider/controllers/service`. What differs: a Service is never worked on twice at once, not even
//!   when its nodes change; a load balancer whose Service vanished without its finalizer is taken away, too; a Service
//!   that is going and never had one is left in peace.

pub mod backends;
mod book;
pub mod invariants;
mod nodes;
mod numbers;
pub mod plan;
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

use self::book::Book;
use self::numbers::Numbers;
use crate::surroundings::{cloud, lacking, workers};

/// Where its events come from.
const EVENT_SOURCE: &str = "service-controller";
/// Clouds are slow, and failures there last.
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
    let book = Arc::new(Book::default());
    let numbers = Numbers::new(&cx.metrics);
    let at_once = workers(cx.config.service_controller.concurrent_service_syncs);
    let fleet = nodes::Fleet {
        nodes: nodes.clone(),
        services: queue.clone(),
        book: book.clone(),
        numbers: numbers.clone(),
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
        book,
        numbers,
    };
    // It runs from when its workers do, and as long as this task is there.
    tasks.spawn("running", async move {
        running.begin();
        std::future::pending::<()>().await;
    });
    tasks.workers(&node_queue, 1, Arc::new(fleet));
    tasks.workers(&queue, at_once, Arc::new(controller));
    Ok(())
}
