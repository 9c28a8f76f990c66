//! Gives every node its own range of pod addresses, out of the cluster's.
//!
//! - **Promise**: a node without `spec.podCIDRs` gets one block of every cluster range, and keeps it. No address is
//!   ever given to two nodes: not while a write is under way, not after a restart, not when another process takes
//!   over. What a deleted node had is used again.
//! - **Watches** Nodes. **Writes** their `spec.podCIDR` and `spec.podCIDRs`, nothing else, and only while
//!   `--allocate-node-cidrs` is on.
//! - Upstream: `pkg/controller/nodeipam`, its range allocator, the only one there is. What differs: who waits for a
//!   free block is told when there is one, a block whose assignment failed stays with its node, and nodes that do
//!   not fit `--cluster-cidr` when it starts do not end the process: no block is handed out and `/healthz` fails,
//!   both until they fit or are gone.

pub mod blocks;
pub mod invariants;
mod metrics;
pub mod pool;
pub mod settings;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use flyball_api::{Key, Node};
use flyball_cache::{Change, Informer};
use flyball_queue::{Priority, Queue};
use flyball_runtime::metrics::RunningController;
use flyball_runtime::{Context, StartError, Tasks, priority};

use self::metrics::Books;
use self::pool::Wake;
use self::settings::Settings;

/// Where its events come from.
const EVENT_SOURCE: &str = "cidrAllocator";
/// As upstream; no flag changes it.
const WORKERS: usize = 30;

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    if !cx.config.kube_cloud_shared.allocate_node_cidrs {
        return Err(StartError::NotNeeded("--allocate-node-cidrs is off".to_owned()));
    }
    let settings = Settings::of(&cx.config).map_err(StartError::Misconfigured)?;
    let books = Arc::new(Books::new(&settings, &cx.metrics));
    let queue = tasks.queue("cidrallocator_node");
    let nodes = cx.informer::<Node>();
    let complaint = tasks.complaint();
    // The books follow the cache, on standby as well; keys are taken up once they are known to be complete.
    tasks.on(&nodes, {
        let (books, queue, nodes, complaint) =
            (books.clone(), queue.clone(), nodes.clone(), complaint.clone());
        move |change| {
            let wake = books.with(|pool| pool.follow(change.old.map(|n| &**n), change.new.map(|n| &**n)));
            if wake == Wake::Everybody {
                complaint.withdraw();
            }
            wake_up(wake, &nodes, &queue);
            if concerned(change) {
                queue.add(change.key(), priority(change.origin));
            }
        }
    });
    let controller = Arc::new(sync::Controller {
        events: cx.events.with_source(EVENT_SOURCE),
        running: RunningController::new(&cx.metrics, cx.component, "nodeipam"),
        cx,
        nodes,
        books,
        complaint,
        queue: queue.clone(),
    });
    tasks.spawn("opening the books", {
        let controller = controller.clone();
        async move { controller.open().await }
    });
    tasks.workers(&queue, WORKERS, controller);
    Ok(())
}

/// Whether there may be anything to do for the node: those that have their ranges only stand in the books.
fn concerned(change: &Change<'_, Node>) -> bool {
    let differs = |old: &Arc<Node>, new: &Node| old.spec.pod_cidrs != new.spec.pod_cidrs;
    change
        .new
        .is_some_and(|node| node.spec.pod_cidrs.is_empty() || change.old.is_none_or(|old| differs(old, node)))
}

/// Brings those back who can be served now.
fn wake_up(wake: Wake, nodes: &Informer<Node>, queue: &Queue<Key>) {
    match wake {
        Wake::Nobody => {}
        Wake::These(names) => {
            names.into_iter().for_each(|name| queue.add(Key::cluster(name), Priority::Change));
        }
        Wake::Everybody => {
            let without = nodes.store().list().into_iter().filter(|node| node.spec.pod_cidrs.is_empty());
            without.for_each(|node| queue.add(node.metadata.key(), Priority::Sweep));
        }
    }
}
