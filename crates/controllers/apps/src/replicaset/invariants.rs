//! What must hold for every plan, whatever the snapshot; for tables, properties and the simulator.

use super::Replicated;
use super::plan::{Action, BURST, View};

/// Checks a plan against its view.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check<T: Replicated>(view: &View<'_, T>, actions: &[Action<'_>]) -> Result<(), String> {
    let (have, want) = (view.pods.len(), view.set.replicas());
    let made: usize = actions.iter().map(|a| if let Action::Create { count } = a { *count } else { 0 }).sum();
    let deleted: Vec<_> = actions
        .iter()
        .filter_map(|a| if let Action::Delete { pod, .. } = a { Some(&pod.metadata.uid) } else { None })
        .collect();
    let rules = [
        ("a set that is being deleted is left alone", !view.set.is_deleting() || actions.is_empty()),
        ("never both making and deleting", made == 0 || deleted.is_empty()),
        ("never more than wanted", have >= want || have + made <= want),
        ("never fewer than wanted", have <= want || have - deleted.len() >= want),
        ("at most a burst", made <= BURST && deleted.len() <= BURST),
        ("no pod deleted twice", deleted.iter().enumerate().all(|(n, uid)| !deleted[..n].contains(uid))),
        ("progress while there is a gap", view.set.is_deleting() || have == want || !actions.is_empty()),
    ];
    rules
        .iter()
        .find(|(_, holds)| !holds)
        .map_or(Ok(()), |(rule, _)| Err(format!("{rule}: have {have}, want {want}, planned {actions:?}")))
}
