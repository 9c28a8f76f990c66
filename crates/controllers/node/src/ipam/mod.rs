//! Assigns every node its own block of each cluster CIDR, for its pods.
//!
//! - **Promise**: a node without `spec.podCIDRs` gets one block of every cluster CIDR, and keeps it. No address is
//!   ever given to two nodes: not while a write is under way, not after a restart, not when another process takes
//!   over. The blocks of a deleted node are used again.
//! - **Watches** Nodes. **Writes** their `spec.podCIDR` and `spec.podCIDRs`, nothing else, and only while
//!   `--allocate-node-cidrs` is on.
//! - Upstream: `pkg/controller/nodeipam`, its range allocator, the only one there is. Differences: a node that waits for a
//!   free block is requeued when there is one, a block whose assignment failed stays reserved for its node, and nodes
//!   with podCIDRs outside of `--cluster-cidr` at the start do not end the process: nothing is allocated and `/healthz`
//!   fails until they fit or are gone.

pub mod blocks;
pub mod invariants;
mod metrics;
pub mod plan;
pub mod pool;
pub mod settings;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::Node;
use flyball_runtime::metrics::RunningController;
use flyball_runtime::{Context, StartError, Tasks, priority};

use self::metrics::SharedPool;
use self::pool::Requeue;
use self::settings::Settings;

/// The source of its events.
const EVENT_SOURCE: &str = "cidrAllocator";
/// As upstream; no flag changes it.
const WORKERS: usize = 30;

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    if !cx.config.kube_cloud_shared.allocate_node_cidrs {
        return Err(StartError::NotNeeded("--allocate-node-cidrs is off".to_owned()));
    }
    let settings = Settings::of(&cx.config).map_err(StartError::Misconfigured)?;
    let pool = Arc::new(SharedPool::new(&settings, &cx.metrics));
    let queue = tasks.queue("cidrallocator_node");
    let nodes = cx.informer::<Node>();
    let complaint = tasks.complaint();
    // The pool follows the cache, on standby as well; blocks are allocated once it is known to be complete.
    tasks.on(&nodes, {
        let (pool, queue, nodes, complaint) = (pool.clone(), queue.clone(), nodes.clone(), complaint.clone());
        move |change| {
            let requeue = pool.with(|pool| pool.update(change.old.map(|n| &**n), change.new.map(|n| &**n)));
            if requeue == Requeue::All {
                complaint.withdraw();
            }
            sync::requeue(requeue, &nodes, &queue);
            if triggers::node_changed(change) {
                queue.add(change.key(), priority(change.origin));
            }
        }
    });
    let controller = Arc::new(sync::Controller {
        events: cx.events.with_source(EVENT_SOURCE),
        running: RunningController::new(&cx.metrics, cx.component, "nodeipam"),
        cx,
        nodes,
        pool,
        complaint,
        queue: queue.clone(),
    });
    tasks.spawn("waiting for all nodes", {
        let controller = controller.clone();
        async move { controller.open().await }
    });
    tasks.workers(&queue, WORKERS, controller);
    Ok(())
}
