//! What must hold for every plan, whatever the snapshot; for tables, properties and the simulator.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use flyball_api::pod::Pod;
use flyball_common::spare::Usefulness;
use flyball_runtime::Plan;

use super::Replicated;
use super::plan::{BURST, View};

/// Checks a plan against its view.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check<T: Replicated>(view: &View<'_, T>, plan: &Plan<Option<&Pod>>) -> Result<(), String> {
    let (have, want) = (view.pods.len(), view.set.replicas());
    let writes = plan.writes();
    let made = writes.iter().filter(|write| write.tag.is_none()).count();
    let deleted: Vec<_> = writes.iter().filter_map(|write| Some(&write.tag?.metadata.uid)).collect();
    let distinct: BTreeSet<_> = deleted.iter().map(|uid| uid.to_smol_str()).collect();
    let (going, staying): (Vec<_>, Vec<_>) =
        view.pods.iter().partition(|pod| distinct.contains(&pod.metadata.uid.to_smol_str()));
    let mut crowds = BTreeMap::<&str, usize>::new();
    for pod in view.spread().iter().filter(|pod| pod.is_active()) {
        *crowds.entry(&pod.spec.node_name).or_default() += 1;
    }
    let worth = |pod: &Pod| {
        let neighbours = crowds.get(pod.spec.node_name.as_str()).copied().unwrap_or(0);
        worth(pod, neighbours, view.has_costs)
    };
    let most_worth = going.iter().map(|pod| worth(pod)).max();
    let rules = [
        ("a set that is being deleted is left alone", !view.set.is_deleting() || writes.is_empty()),
        ("never both making and deleting", made == 0 || deleted.is_empty()),
        ("never more than wanted", have >= want || have + made <= want),
        ("never fewer than wanted", have <= want || have - deleted.len() >= want),
        ("at most a burst", made <= BURST && deleted.len() <= BURST),
        ("no pod deleted twice", distinct.len() == deleted.len()),
        (
            "no pod goes while one of less worth stays",
            most_worth.is_none_or(|most| staying.iter().all(|pod| worth(pod) >= most)),
        ),
        ("progress while there is a gap", view.set.is_deleting() || have == want || !writes.is_empty()),
    ];
    rules
        .iter()
        .find(|(_, holds)| !holds)
        .map_or(Ok(()), |(rule, _)| Err(format!("{rule}: have {have}, want {want}, planned {plan}")))
}

/// The first criteria of the deletion order: node, phase, readiness, deletion cost, number of pods on the node. Ages and
/// restarts come after these.
fn worth(pod: &Pod, neighbours: usize, has_costs: bool) -> (bool, u8, bool, i32, Reverse<usize>) {
    let of = Usefulness::of(pod, neighbours);
    let cost = if has_costs { of.deletion_cost } else { 0 };
    (of.assigned, of.phase, of.ready.is_some(), cost, Reverse(of.neighbours))
}
