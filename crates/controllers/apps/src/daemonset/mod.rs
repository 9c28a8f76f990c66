//! Maintains one pod of a DaemonSet on every matching node.
//!
//! - **Promise**: once `spec` and the nodes stop changing, every node that fits the template (by name, selector,
//!   affinity and taints) runs one pod of the current revision and no other node runs any. With a taint of effect
//!   `NoSchedule` an existing pod stays. Pods are created with affinity for their node and are assigned by the
//!   scheduler. An update never exceeds `maxUnavailable` or `maxSurge`.
//! - **Watches** DaemonSets, Pods, Nodes and ControllerRevisions. **Writes** pods, revisions, and the whole
//!   `status` of its sets except `conditions`, which it never changes.
//! - Upstream: `pkg/controller/daemon`. What differs: the write barrier replaces expectations.

pub mod backoff;
pub mod history;
pub mod invariants;
pub mod manifests;
pub mod nodes;
pub mod placement;
pub mod plan;
pub mod status;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;
pub mod update;
pub mod view;

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{ControllerRevision, DaemonSet, Key, Node};
use flyball_common::index::{by_controller, by_node};
use flyball_runtime::gates::Gate;
use flyball_runtime::{Context, StartError, Tasks};

/// The name of the controller, and the source of its events.
pub const NAME: &str = "daemonset-controller";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue::<Key>("daemonset");
    let node_queue = tasks.queue::<Key>("daemonset-node-updates");
    let (sets, pods) = (cx.informer::<DaemonSet>(), cx.informer::<Pod>());
    let (nodes, revisions) = (cx.informer::<Node>(), cx.informer::<ControllerRevision>());
    pods.index(&by_controller());
    pods.index(&by_node());
    revisions.index(&by_controller());
    tasks.feed(&sets, &queue, |change| [change.key()]);
    tasks.feed(&pods, &queue, {
        let sets = sets.clone();
        move |change| triggers::pod_changed(change, sets.store())
    });
    tasks.feed(&revisions, &queue, {
        let sets = sets.clone();
        move |change| triggers::revision_changed(change, sets.store())
    });
    tasks.feed(&nodes, &node_queue, |change| triggers::is_relevant(change).then(|| change.key()));
    let workers = usize::try_from(cx.config.daemon_set_controller.concurrent_daemon_set_syncs).unwrap_or(1);
    let comparisons = cx.gates.enabled(Gate::TaintTolerationComparisonOperators);
    let watch = sync::NodeWatch {
        sets: sets.clone(),
        pods: pods.clone(),
        nodes: nodes.clone(),
        queue: queue.clone(),
        comparisons,
    };
    let events = cx.events.with_source(NAME);
    let backoff = backoff::Backoff::default();
    let controller = sync::Controller { events, cx, sets, pods, nodes, revisions, backoff, comparisons };
    tasks.workers(&queue, workers, Arc::new(controller));
    tasks.workers(&node_queue, workers, Arc::new(watch));
    Ok(())
}
