//! What must hold for every response to the check of a node; for tables, properties and the simulator.

use super::response::{Response, Taint, View};
use super::status::Ready;
use super::taints::has_no_execute;

/// Checks a response against its view.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(view: &View, response: &Response) -> Result<(), String> {
    let Response { taint, became_not_ready, marks_pods } = *response;
    let evicts = matches!(taint, Taint::Queue | Taint::Replace);
    let is_ready = view.after == Some(Ready::True);
    let fell = view.before == Ready::True && !is_ready && view.after.is_some();
    let rules = [
        ("no pods are evicted while no node is ready", !view.no_node_ready || !evicts),
        ("no pods are evicted from a ready node", !is_ready || !evicts),
        (
            "a node that never reported is left alone",
            view.after.is_some() || *response == Response::default(),
        ),
        (
            "a node that is ready again loses its taints",
            !(is_ready && has_no_execute(&view.node)) || taint == Taint::Clear,
        ),
        ("the pods of a node that becomes not ready are marked", !fell || became_not_ready && marks_pods),
        ("a ready node has no NodeNotReady event", !is_ready || !became_not_ready),
        ("no pods of a ready node are marked", view.before != Ready::True || fell || !marks_pods),
    ];
    rules
        .iter()
        .find(|(_, holds)| !holds)
        .map_or(Ok(()), |(rule, _)| Err(format!("{rule}: {view:?} led to {response:?}")))
}
