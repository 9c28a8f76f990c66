//! How many pods to make, or which to delete. Pure.

use std::cmp::Ordering;
use std::sync::Arc;

use flyball_api::Timestamp;
use flyball_api::pod::Pod;
use flyball_common::spare::{Usefulness, least_useful};

use super::Replicated;

/// Most pods that one sync makes or deletes. The rest comes with the next, so that one huge set cannot
/// starve the others of requests.
pub const BURST: usize = 500;

/// Everything the decision may look at, borrowed from one snapshot.
pub struct View<'a, T> {
    /// The set.
    pub set: &'a T,
    /// The active pods that are the set's own.
    pub pods: &'a [Arc<Pod>],
    /// The pods of all sets with the same controller, for which sharing a node is a waste; empty without one.
    pub family: &'a [Arc<Pod>],
    /// What time it is.
    pub now: Timestamp,
}

/// One step towards the wanted number.
#[derive(Debug, PartialEq)]
pub enum Action<'a> {
    /// Make this many pods.
    Create {
        /// How many.
        count: usize,
    },
    /// Delete one pod.
    Delete {
        /// Which.
        pod: &'a Pod,
        /// Why this one.
        why: Usefulness<'a>,
    },
}

/// The writes that bring the number of pods to `spec.replicas`; empty when there is nothing to do.
pub fn plan<'a, T: Replicated>(view: &View<'a, T>) -> Vec<Action<'a>> {
    if view.set.is_deleting() {
        return vec![];
    }
    let (have, want) = (view.pods.len(), view.set.replicas());
    match have.cmp(&want) {
        Ordering::Equal => vec![],
        Ordering::Less => vec![Action::Create { count: (want - have).min(BURST) }],
        Ordering::Greater => least_useful(view.pods, view.family, (have - want).min(BURST), view.now)
            .into_iter()
            .map(|(pod, why)| Action::Delete { pod, why })
            .collect(),
    }
}
