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
    let after = carried_out(before.clone(), decision)?;
    let rolling = decision.report == Report::Rollout && limits.is_rolling();
    let is_only_revising = decision.actions.iter().all(|action| matches!(action, Action::Revise { .. }));
    let made = decision.actions.iter().filter(|action| matches!(action, Action::Create(_))).count();
    let emptied = decision.fleet.old.iter().all(|set| !is_deleted(decision, set) || replicas(set) == 0);
    let rules = [
        (
            "a Deployment that is being deleted is left alone",
            !view.deployment.is_deleting() || is_only_revising,
        ),
        ("a paused one gets no new set", !view.deployment.spec.paused || made == 0),
        ("one new set at most, and only if there is none", made <= usize::from(decision.fleet.new.is_none())),
        (
            "only empty old sets are deleted",
            emptied && decision.fleet.new.is_none_or(|set| !is_deleted(decision, set)),
        ),
        ("never more than desired and surge", total(&after) <= total(&before).max(limits.most())),
        (
            "no available pod goes beyond what may be unavailable",
            !rolling || useful(&after) >= useful(&before).min(limits.least_available()),
        ),
        ("no size below zero", after.values().all(|(replicas, _)| *replicas >= 0)),
    ];
    match rules.iter().find(|(_, holds)| !holds) {
        None => Ok(()),
        Some((rule, _)) => Err(format!("{rule}: {limits:?}, {before:?} became {after:?}")),
    }
}

/// Replicas and available pods of each set.
type Sizes = BTreeMap<flyball_api::Key, (i64, i64)>;

fn total(sizes: &Sizes) -> i64 {
    sizes.values().map(|(replicas, _)| replicas).sum()
}

/// The pods that stay available: a set deletes unavailable pods first.
fn useful(sizes: &Sizes) -> i64 {
    sizes.values().map(|(replicas, available)| replicas.min(available)).sum()
}

fn is_deleted(decision: &Decision<'_>, set: &ReplicaSet) -> bool {
    decision
        .actions
        .iter()
        .any(|action| matches!(action, Action::Delete { set: gone } if gone.uid() == set.uid()))
}

/// The sizes after all writes; an error if a write assumes a size that the set does not have at that point.
fn carried_out(mut sizes: Sizes, decision: &Decision<'_>) -> Result<Sizes, String> {
    for action in &decision.actions {
        match action {
            Action::Scale { set, from, to } => {
                let held = sizes.get_mut(&set.key()).filter(|(held, _)| held == from);
                held.ok_or_else(|| format!("{action:?} does not fit to {:?}", decision.actions))?.0 = *to;
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
