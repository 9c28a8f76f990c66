//! What must hold for every decision, whatever the snapshot; for tables, properties and the simulator.

use std::collections::BTreeMap;

use flyball_api::{Object, ReplicaSet};

use super::decision::{Action, Decision, Report, View};
use super::fleet::{available, replicas};

/// Checks a decision against its view.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(view: &View<'_>, decision: &Decision<'_>) -> Result<(), String> {
    let limits = &view.limits;
    let before: Sizes =
        decision.fleet.all().map(|set| (set.key(), (replicas(set), available(set)))).collect();
    let after = sizes_after(before.clone(), decision)?;
    let rolling = decision.report == Report::Rollout && limits.is_rolling();
    let is_only_revising = decision.actions.iter().all(|action| matches!(action, Action::Revise { .. }));
    let created = decision.actions.iter().filter(|action| matches!(action, Action::Create(_))).count();
    let only_empty_deleted =
        decision.fleet.old.iter().all(|set| !is_deleted(decision, set) || replicas(set) == 0);
    let rules = [
        (
            "nothing is created, scaled or deleted for a Deployment that is being deleted",
            !view.deployment.is_deleting() || is_only_revising,
        ),
        ("a paused Deployment gets no new ReplicaSet", !view.deployment.spec.paused || created == 0),
        (
            "at most one new ReplicaSet, and only if there is none",
            created <= usize::from(decision.fleet.new.is_none()),
        ),
        (
            "only empty old ReplicaSets are deleted",
            only_empty_deleted && decision.fleet.new.is_none_or(|set| !is_deleted(decision, set)),
        ),
        ("never more replicas than desired plus surge", total(&after) <= total(&before).max(limits.most())),
        (
            "no more pods become unavailable than maxUnavailable allows",
            !rolling
                || remaining_available(&after) >= remaining_available(&before).min(limits.least_available()),
        ),
        ("no negative size", after.values().all(|(replicas, _)| *replicas >= 0)),
    ];
    match rules.iter().find(|(_, holds)| !holds) {
        None => Ok(()),
        Some((rule, _)) => Err(format!("{rule}: {limits:?}, {before:?} became {after:?}")),
    }
}

/// Replicas and available pods of each ReplicaSet.
type Sizes = BTreeMap<flyball_api::Key, (i64, i64)>;

fn total(sizes: &Sizes) -> i64 {
    sizes.values().map(|(replicas, _)| replicas).sum()
}

/// The pods that stay available, since a ReplicaSet deletes unavailable pods first.
fn remaining_available(sizes: &Sizes) -> i64 {
    sizes.values().map(|(replicas, available)| replicas.min(available)).sum()
}

fn is_deleted(decision: &Decision<'_>, set: &ReplicaSet) -> bool {
    decision
        .actions
        .iter()
        .any(|action| matches!(action, Action::Delete { set: deleted } if deleted.uid() == set.uid()))
}

/// The sizes after all writes; an error if a write assumes a size that the set does not have at that point.
fn sizes_after(mut sizes: Sizes, decision: &Decision<'_>) -> Result<Sizes, String> {
    for action in &decision.actions {
        match action {
            Action::Scale { set, from, to } => {
                let size = sizes.get_mut(&set.key()).filter(|(replicas, _)| replicas == from);
                size.ok_or_else(|| format!("{action:?} assumes a wrong size: {:?}", decision.actions))?.0 =
                    *to;
            }
            Action::Create(new) => {
                sizes.insert(flyball_api::Key::new("", new.name.as_str()), (new.replicas, 0));
            }
            Action::Delete { set } => _ = sizes.remove(&set.key()),
            Action::Revise { .. } | Action::RollBack(_) => {}
        }
    }
    Ok(sizes)
}
