//! Which sets to sync after a change of a pod, a revision or a node. Pure.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{ControllerRevision, DaemonSet, Key, Node, Object, Selector};
use flyball_cache::{Change, Store};
use flyball_common::wake;

use super::placement::Placement;

/// The controller of the pod, its former controller, and, for a pod without a controller, every set that could adopt
/// it.
pub fn pod_changed(change: &Change<'_, Pod>, sets: &Store<DaemonSet>) -> Vec<Key> {
    wake::owners(change, sets, selector)
}

/// The same for a revision, except for a new one with a controller: the set that created it goes on in the same sync, and a
/// copy that a user created stays until something else changes.
pub fn revision_changed(change: &Change<'_, ControllerRevision>, sets: &Store<DaemonSet>) -> Vec<Key> {
    let is_owned = |revision: &ControllerRevision| {
        revision.metadata.controller().is_some() && !revision.metadata.is_deleting()
    };
    match (change.old, change.new) {
        (None, Some(added)) if is_owned(added) => vec![],
        _ => wake::owners(change, sets, selector),
    }
}

fn selector(set: &DaemonSet) -> Option<Selector> {
    Selector::from_object(set.spec.selector.as_ref()).ok()
}

/// Whether a change of a node matters: it is new, or its labels or taints have changed. When a node is deleted, the
/// deletions of its pods trigger their sets.
pub fn is_relevant(change: &Change<'_, Node>) -> bool {
    match (change.old, change.new) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(old), Some(new)) => {
            old.metadata.labels != new.metadata.labels || old.spec.taints != new.spec.taints
        }
    }
}

/// The sets that a change of a node with these pods affects: a pod is missing there, or must not stay there, or the set has
/// misscheduled pods, which may have become right.
///
/// Upstream: syncNodeUpdate: a pod that may stay on a node that should not run it does not trigger its set.
pub fn node_changed(node: &Node, there: &[Arc<Pod>], sets: &Store<DaemonSet>, comparisons: bool) -> Vec<Key> {
    let has_pod = |set: &DaemonSet| there.iter().any(|pod| pod.metadata.is_controlled_by(set.uid()));
    let is_concerned = |set: &&Arc<DaemonSet>| {
        let fit = Placement::of(set, comparisons).on(node);
        match has_pod(set) {
            true => !fit.may_stay || set.status.number_misscheduled > 0,
            false => fit.should_run,
        }
    };
    sets.list().iter().filter(is_concerned).map(|set| set.key()).collect()
}
