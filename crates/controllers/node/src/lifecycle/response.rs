//! What follows from the check of a node, once the state of all zones is known. Pure.

use std::sync::Arc;

use flyball_api::{Node, Object, Timestamp};
use flyball_runtime::events::ObjectRef;
use flyball_runtime::{Event, Write};

use super::status::Ready;
use super::taints::{
    self, NO_EXECUTE, NOT_READY, UNREACHABLE, clear_no_execute, has, has_no_execute, no_execute,
};

/// Everything that the decision depends on.
#[derive(Debug, Clone)]
pub struct View {
    pub node: Arc<Node>,
    /// Whether it was ready before the check; unknown if it has never reported.
    pub before: Ready,
    /// Whether it is ready after the check; `None` if it has never reported.
    pub after: Option<Ready>,
    /// Whether its pods should have been marked as not ready earlier, and perhaps were not.
    pub pods_pending: bool,
    /// Whether it waits for the taint that evicts its pods.
    pub is_queued: bool,
    pub no_node_ready: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Response {
    pub taint: Taint,
    /// Whether the node has become not ready in this check.
    pub became_not_ready: bool,
    /// Whether its pods are to be marked as not ready.
    pub marks_pods: bool,
}

/// What happens to the taint that evicts pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Taint {
    #[default]
    Keep,
    /// It is removed, and the node leaves the queue for it.
    Clear,
    /// The node waits for it in the queue of its zone.
    Queue,
    /// It is replaced by its opposite at once: the pods are being evicted already.
    Replace,
}

pub fn respond(view: &View) -> Response {
    let Some(after) = view.after else { return Response::default() };
    let became_not_ready = after != Ready::True && view.before == Ready::True;
    Response {
        taint: taint(view, after),
        became_not_ready,
        // The kubelet itself marks the pods of a node that it reports as not ready.
        marks_pods: became_not_ready || view.pods_pending && view.before != Ready::True,
    }
}

fn taint(view: &View, after: Ready) -> Taint {
    // If no node is ready, probably the control plane is cut off: no pods are evicted.
    if after == Ready::True || view.no_node_ready {
        let clears = view.is_queued || has_no_execute(&view.node);
        return if clears { Taint::Clear } else { Taint::Keep };
    }
    let (wanted, opposite) = match after {
        Ready::Unknown => (UNREACHABLE, NOT_READY),
        _ => (NOT_READY, UNREACHABLE),
    };
    match (has(&view.node, wanted, NO_EXECUTE), has(&view.node, opposite, NO_EXECUTE)) {
        (_, true) => Taint::Replace,
        (true, false) => Taint::Keep,
        (false, false) => Taint::Queue,
    }
}

impl Response {
    pub fn event(&self, node: &Node) -> Option<Event> {
        let message = || format!("Node {} status is now: NodeNotReady", node.metadata.name);
        self.became_not_ready.then(|| about(node, Event::normal("NodeNotReady", message())))
    }

    /// The change of taints that is made at once.
    pub fn write(&self, view: &View, now: Timestamp) -> Option<Write> {
        match self.taint {
            Taint::Keep | Taint::Queue => None,
            Taint::Clear if view.no_node_ready => {
                taints::write(&view.node, clear_no_execute, "no node is ready, so no pods are evicted", now)
            }
            Taint::Clear => taints::write(&view.node, clear_no_execute, "the node is ready", now),
            Taint::Replace => {
                let why = "its readiness has changed, and its pods are being evicted already";
                taints::write(&view.node, no_execute, why, now)
            }
        }
    }
}

/// The event about a node. Upstream: events of the node controller name no version.
pub fn about(node: &Node, event: Event) -> Event {
    event.about(ObjectRef::named::<Node>("", &node.metadata.name, node.uid()))
}
