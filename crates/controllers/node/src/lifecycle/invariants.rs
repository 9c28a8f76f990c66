//! What must hold for every plan, whatever the node and the cluster; for tables, properties and the simulator.

use super::plan::{Action, View};
use super::status::Ready;
use super::taints::is_evicted;

/// Checks a plan against its view.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(view: &View<'_>, actions: &[Action]) -> Result<(), String> {
    let does = |action| actions.contains(&action);
    let evicts = does(Action::AwaitTaint) || does(Action::SwapTaint);
    let is_ready = view.current == Some(Ready::True);
    let fell = view.observed == Ready::True && !is_ready && view.current.is_some();
    let rules = [
        ("in the dark nobody is evicted", !view.dark || !evicts),
        ("a node that is ready is not evicted", !is_ready || !evicts),
        ("a node that never reported is left alone", view.current.is_some() || actions.is_empty()),
        ("never both welcome and evicted", !(evicts && does(Action::Welcome))),
        (
            "a node that is ready again loses its taints",
            !(is_ready && is_evicted(view.node)) || does(Action::Welcome),
        ),
        ("the pods of a node that falls are marked", !fell || does(Action::Tell) && does(Action::MarkPods)),
        ("the pods of a node that is ready are left alone", !is_ready || !does(Action::Tell)),
        (
            "no pods are marked while the node says that it is ready",
            view.observed != Ready::True || fell || !does(Action::MarkPods),
        ),
        (
            "a settled node asks for nothing twice",
            actions.iter().enumerate().all(|(n, a)| !actions[..n].contains(a)),
        ),
    ];
    rules
        .iter()
        .find(|(_, holds)| !holds)
        .map_or(Ok(()), |(rule, _)| Err(format!("{rule}: {view:?} planned {actions:?}")))
}
