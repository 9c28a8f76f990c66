//! Evicts pods from nodes whose `NoExecute` taints they do not tolerate, or no longer tolerate.
//!
//! - **Promise**: a pod that does not tolerate every `NoExecute` taint of its node is deleted at once; one that
//!   tolerates them for a limited time is deleted when the shortest of these times has passed, unless the taints are
//!   removed before. A pod that tolerates them for ever is left alone. Before a pod is deleted it gets the condition
//!   `DisruptionTarget`, so that its controller does not count this as a failure of the pod.
//! - **Watches** Pods and Nodes. **Writes**: deletes pods, and patches the one condition of those that it deletes.
//! - With `--flyball-taint-eviction-respects-budgets`, ready pods are evicted through the eviction API, and wait for their disruption
//!   budgets, which are watched, too.
//! - Upstream: `pkg/controller/tainteviction`. Differences: a failed deletion is tried again until it succeeds, a pod that merely
//!   has the name of the one to be evicted is left alone, and it also works alone (upstream's sees changes of nodes only if another
//!   controller has added the index of pods by node).

pub mod invariants;
pub mod plan;
pub mod schedule;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::pod_disruption_budget::PodDisruptionBudget;
use flyball_api::{Key, Node};
use flyball_common::index::by_node;
use flyball_runtime::{Context, StartError, Tasks, priority};

/// The name under which the controller runs and records events.
pub const NAME: &str = "taint-eviction-controller";

const NODE_WORKERS: usize = 8;
/// Each may have to wait for a deletion; upstream starts a goroutine for every single one.
const POD_WORKERS: usize = 32;

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let node_queue = tasks.queue::<Key>("noexec_taint_node");
    let pod_queue = tasks.queue::<Key>("noexec_taint_pod");
    let (pods, nodes) = (cx.informer::<Pod>(), cx.informer::<Node>());
    pods.index(&by_node());
    let schedule = Arc::new(schedule::Schedule::default());
    tasks.feed(&nodes, &node_queue, |change| triggers::node_changed(change).then(|| change.key()));
    tasks.on(&pods, {
        let (queue, nodes, schedule) = (pod_queue.clone(), nodes.clone(), schedule.clone());
        move |change| {
            let is_tainted = |node: &str| {
                nodes
                    .store()
                    .get(&Key::cluster(node))
                    .is_some_and(|node| plan::has_no_execute(&node.spec.taints))
            };
            if triggers::pod_changed(change, is_tainted, |key| schedule.has(key)) {
                queue.add(change.key(), priority(change.origin));
            }
        }
    });
    if cx.config.flyball.taint_eviction_respects_budgets {
        tasks.feed(&cx.informer::<PodDisruptionBudget>(), &pod_queue, {
            let schedule = schedule.clone();
            move |change| match triggers::budget_changed(change) {
                true => schedule.announced(&change.key().namespace),
                false => vec![],
            }
        });
        tasks.feed(&pods, &pod_queue, {
            let schedule = schedule.clone();
            move |change| {
                let is_due = triggers::has_become_unready(change) && schedule.has(&change.key());
                is_due.then(|| change.key())
            }
        });
    }
    let of_nodes = sync::Nodes {
        nodes: nodes.clone(),
        pods: pods.clone(),
        schedule: schedule.clone(),
        pod_queue: pod_queue.clone(),
    };
    tasks.workers(&node_queue, NODE_WORKERS, Arc::new(of_nodes));
    tasks.workers(&pod_queue, POD_WORKERS, Arc::new(sync::Pods::new(cx, nodes, pods, schedule)));
    Ok(())
}
