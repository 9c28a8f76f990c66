//! Which nodes get a pod and which pods are deleted, so that every node has one running pod, or two while one replaces the
//! other. Pure.

use flyball_api::pod::{Phase, Pod};

use super::backoff;
use super::manifests::HASH;
use super::plan::{Changes, Why};
use super::view::{DaemonNode, View};

/// Creates and deletes pods so that all nodes have the pods that they should have.
pub fn nodes<'a>(view: &'a View<'_>) -> Changes<'a> {
    let mut changes = Changes::default();
    view.daemon_nodes.iter().for_each(|(node, on_node)| manage(view, node, on_node, &mut changes));
    changes
}

/// The same for one node.
fn manage<'a>(view: &View<'_>, node: &'a str, on_node: &'a DaemonNode<'a>, changes: &mut Changes<'a>) {
    let alive = on_node.pods.iter().filter(|pod| !pod.metadata.is_deleting());
    if !on_node.exists {
        // The pod garbage collector deletes pods on the node, but not pods that wait for the scheduler.
        let waiting = on_node.pods.iter().filter(|pod| pod.spec.node_name.is_empty());
        waiting.for_each(|pod| changes.delete(pod, node, Why::NodeGone));
    } else if on_node.fit.should_run && on_node.pods.is_empty() {
        changes.create.push(node);
    } else if on_node.fit.may_stay {
        prune(view, node, on_node, changes);
    } else {
        alive.for_each(|pod| changes.delete(pod, node, Why::Misplaced));
    }
}

/// Deletes finished and surplus pods of a node whose pods may stay.
fn prune<'a>(view: &View<'_>, node: &'a str, on_node: &'a DaemonNode<'a>, changes: &mut Changes<'a>) {
    let mut wait = view.backoff.get(node).copied();
    let mut running = vec![];
    for pod in on_node.pods.iter().copied().filter(|pod| !pod.metadata.is_deleting()) {
        match (pod.status.phase, wait) {
            // The kubelet may reject the pods: without a delay they would be replaced in a fast endless loop.
            (Phase::Failed, Some(wait)) => {
                changes.retry_after = changes.retry_after.into_iter().chain([wait]).min();
            }
            (Phase::Failed, None) => {
                changes.delete(pod, node, Why::Failed);
                wait = Some(backoff::FIRST);
            }
            (Phase::Succeeded, _) => changes.delete(pod, node, Why::Succeeded),
            _ => running.push(pod),
        }
    }
    if !view.is_surging() {
        running.into_iter().skip(1).for_each(|pod| changes.delete(pod, node, Why::Surplus));
    } else if running.is_empty() && on_node.fit.should_run {
        changes.create.push(node);
    } else if running.len() > 1 {
        hand_over(view, node, running, changes);
    }
}

/// Of several pods on one node, keeps the oldest new one, and the oldest old one as long as that is available and the new
/// one is not.
fn hand_over<'a>(view: &View<'_>, node: &'a str, running: Vec<&'a Pod>, changes: &mut Changes<'a>) {
    let (mut new, mut old) = (None, None);
    for pod in running {
        let is_new = pod.metadata.labels.get(HASH) == Some(view.hash);
        let first = if is_new { &mut new } else { &mut old };
        match first {
            None => *first = Some(pod),
            Some(_) => changes.delete(pod, node, Why::Surplus),
        }
    }
    if let (Some(new), Some(old)) = (new, old)
        && (!old.is_ready() || view.is_available(new))
    {
        changes.delete(old, node, Why::Superseded);
    }
}
