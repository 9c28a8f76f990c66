//! Evicts pods from nodes whose `NoExecute` taints they do not bear, or no longer bear.
//!
//! - **Promise**: a pod that does not tolerate every `NoExecute` taint of its node is deleted at once; one that
//!   tolerates them for a limited time is deleted when the shortest of these times has passed, unless the taints go
//!   before. A pod that tolerates them for ever is left alone. Before a pod is deleted it is marked with the
//!   condition `DisruptionTarget`, so that whoever owns it knows that it is not to blame.
//! - **Watches** Pods and Nodes. **Writes**: deletes pods, and patches the one condition of those that it deletes.
//! - Upstream: `pkg/controller/tainteviction`. What differs: a failed deletion is tried again until it succeeds, and a
//!   pod that merely has the name of the one to be evicted is left alone.

mod book;
pub mod plan;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Key, Node};
use flyball_common::index::by_node;
use flyball_runtime::{Context, StartError, Tasks, priority};

/// The name under which the controller runs and tells events.
pub const NAME: &str = "taint-eviction-controller";

const NODE_WORKERS: usize = 8;
/// Each may have to wait for a deletion; upstream starts a goroutine for every single one.
const POD_WORKERS: usize = 32;

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let node_queue = tasks.queue::<Key>("noexec_taint_node");
    let pod_queue = tasks.queue::<Key>("noexec_taint_pod");
    let (pods, nodes) = (cx.informer::<Pod>(), cx.informer::<Node>());
    pods.index(&by_node());
    let book = Arc::new(book::Book::default());
    tasks.feed(&nodes, &node_queue, |change| triggers::node_changed(change).then(|| change.key()));
    tasks.on(&pods, {
        let (queue, nodes, book) = (pod_queue.clone(), nodes.clone(), book.clone());
        move |change| {
            let is_tainted = |node: &str| {
                nodes.store().get(&Key::cluster(node)).is_some_and(|node| plan::repels(&node.spec.taints))
            };
            if triggers::pod_changed(change, is_tainted, |key| book.has(key)) {
                queue.add(change.key(), priority(change.origin));
            }
        }
    });
    let of_nodes = sync::Nodes {
        nodes: nodes.clone(),
        pods: pods.clone(),
        book: book.clone(),
        evictions: pod_queue.clone(),
    };
    tasks.workers(&node_queue, NODE_WORKERS, Arc::new(of_nodes));
    tasks.workers(&pod_queue, POD_WORKERS, Arc::new(sync::Pods::new(cx, nodes, pods, book)));
    Ok(())
}
