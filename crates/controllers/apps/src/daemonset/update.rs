//! The rolling update: deletes old pods within `maxUnavailable`, or creates new ones within `maxSurge`. Pure.
//!
//! It handles nodes with one running pod, or two while surging; [`super::nodes`] handles the others first.

use flyball_api::intstr::InvalidPercentage;
use flyball_api::pod::Pod;

use super::plan::{Changes, Deletion, Why};
use super::view::{DaemonNode, View};

/// The running pods of a node: at most one of the current template and one of an older template.
#[derive(Default)]
struct Pair<'a> {
    new: Option<&'a Pod>,
    old: Option<&'a Pod>,
}

/// The two pods of a node; `None` if there are more.
fn pair<'a>(view: &View<'_>, on_node: &DaemonNode<'a>) -> Option<Pair<'a>> {
    let mut pair = Pair::default();
    for pod in on_node.pods.iter().copied().filter(|pod| !pod.metadata.is_deleting()) {
        let place = if view.is_updated(pod) { &mut pair.new } else { &mut pair.old };
        if place.replace(pod).is_some() {
            return None;
        }
    }
    Some(pair)
}

/// The steps of the update.
///
/// # Errors
/// A bound is neither a number nor a percentage.
pub fn update<'a>(view: &'a View<'_>) -> Result<Changes<'a>, InvalidPercentage> {
    let desired = view.desired();
    let (surge, unavailable) = (view.max_surge(desired)?, view.max_unavailable(desired)?);
    Ok(match surge {
        // With both at zero the update could not proceed; the server does not accept this.
        0 if desired > 0 => replace(view, unavailable.max(1)),
        0 => replace(view, unavailable),
        _ => surge_over(view, surge, desired),
    })
}

/// The nodes to update: those with pods, and those that should have one.
fn concerned<'a>(view: &'a View<'_>) -> impl Iterator<Item = (&'a str, &'a DaemonNode<'a>)> {
    let daemon_nodes =
        view.daemon_nodes.iter().filter(|(_, on_node)| on_node.fit.should_run || !on_node.pods.is_empty());
    daemon_nodes.map(|(node, on_node)| (node.as_str(), on_node))
}

/// Deletes old pods as long as at most `most` nodes have no available pod. Unavailable old pods are deleted at once.
fn replace<'a>(view: &'a View<'_>, most: usize) -> Changes<'a> {
    let outdated = |pod, node| Deletion { pod, node, why: Why::Outdated };
    let (mut unavailable, mut free, mut candidates) = (0, vec![], vec![]);
    for (node, on_node) in concerned(view) {
        match pair(view, on_node) {
            Some(Pair { new: Some(pod), old: None }) => unavailable += usize::from(!view.is_available(pod)),
            Some(Pair { new: None, old: Some(pod) }) if view.is_available(pod) => {
                candidates.push(outdated(pod, node));
            }
            Some(Pair { new: None, old: Some(pod) }) => {
                free.push(outdated(pod, node));
                unavailable += 1;
            }
            // No pod, or several: handled by `super::nodes`.
            _ => unavailable += 1,
        }
    }
    candidates.truncate(most.saturating_sub(unavailable));
    free.extend(candidates);
    Changes { delete: free, ..Changes::default() }
}

/// Creates new pods besides old ones on at most `most` nodes at a time, and deletes the old pod once the new one is
/// available. Unavailable old pods get a new one at once. Nothing is done while there is an old pod on a deleted node.
fn surge_over<'a>(view: &'a View<'_>, most: usize, desired: usize) -> Changes<'a> {
    let mut changes = Changes::default();
    let (mut surging, mut available) = (0, 0);
    let (mut candidates, mut misplaced) = (vec![], vec![]);
    for (node, on_node) in concerned(view) {
        let Some(pair) = pair(view, on_node) else {
            surging += 1;
            continue;
        };
        available += usize::from(pair.old.or(pair.new).is_some_and(|pod| view.is_available(pod)));
        match pair {
            Pair { old: None, .. } => {}
            // Upstream: update.go, rollingUpdate: looks up the node, and fails. The pod garbage collector deletes the pod.
            Pair { old: Some(_), new: None } if !on_node.exists => return Changes::default(),
            Pair { old: Some(old), new: None } => match (view.is_available(old), on_node.fit.should_run) {
                (false, false) => changes.delete(old, node, Why::Misplaced),
                (false, true) => changes.create.push(node),
                (true, false) => misplaced.push(Deletion { pod: old, node, why: Why::Misplaced }),
                (true, true) => candidates.push(node),
            },
            Pair { old: Some(old), new: Some(new) } if view.is_available(new) => {
                changes.delete(old, node, Why::Superseded);
            }
            Pair { .. } => surging += 1,
        }
    }
    // With `maxSurge` all pods should stay available: a misplaced pod is deleted only if enough others are available.
    misplaced.truncate(available.saturating_sub(desired));
    changes.delete.extend(misplaced);
    candidates.truncate(most.saturating_sub(surging));
    changes.create.extend(candidates);
    changes
}
