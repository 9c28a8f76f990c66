//! What follows from a look at a node, once it is known how its zone and the whole cluster fare. Pure.

use flyball_api::Node;

use super::status::Ready;
use super::taints::{NO_EXECUTE, NOT_READY, UNREACHABLE, has, is_evicted};

/// Everything the decision may look at.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub node: &'a Node,
    /// Whether it was ready when we looked; one that never reported is unknown.
    pub observed: Ready,
    /// Whether it is ready now that we have said what we think of it; `None` if that was never said.
    pub current: Option<Ready>,
    /// Whether its pods should have been marked earlier, and were not, or that cannot be known.
    pub owed: bool,
    /// Whether it waits for its turn to get the taint that evicts.
    pub waits: bool,
    /// Whether no node of the cluster is ready.
    pub dark: bool,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Lift the taints that evict, and forget that the node waits for one.
    Welcome,
    /// Let the node wait for its turn to get the taint that evicts.
    AwaitTaint,
    /// Exchange the taint that evicts for its opposite at once: the pods are being evicted already.
    SwapTaint,
    /// Tell that the node is not ready any more.
    Tell,
    /// Mark its pods as not ready.
    MarkPods,
}

pub fn plan(view: &View<'_>) -> Vec<Action> {
    // Of a node that never reported there is nothing to say yet.
    let Some(current) = view.current else { return vec![] };
    let mut actions: Vec<Action> = taint(view, current).into_iter().collect();
    let falls = current != Ready::True && view.observed == Ready::True;
    if falls {
        actions.push(Action::Tell);
    }
    // Of a node that itself says that it is not ready, the kubelet marks the pods.
    if falls || view.owed && view.observed != Ready::True {
        actions.push(Action::MarkPods);
    }
    actions
}

fn taint(view: &View<'_>, current: Ready) -> Option<Action> {
    let (wanted, opposite) = match current {
        // With no node ready it is rather us who are cut off: nobody is evicted, and who was to be is not any more.
        _ if view.dark => return welcome(view),
        Ready::True => return welcome(view),
        Ready::False => (NOT_READY, UNREACHABLE),
        Ready::Unknown => (UNREACHABLE, NOT_READY),
    };
    let tainted = |key| has(view.node, key, NO_EXECUTE);
    match (tainted(wanted), tainted(opposite)) {
        (_, true) => Some(Action::SwapTaint),
        (true, false) => None,
        (false, false) => Some(Action::AwaitTaint),
    }
}

fn welcome(view: &View<'_>) -> Option<Action> {
    (view.waits || is_evicted(view.node)).then_some(Action::Welcome)
}
