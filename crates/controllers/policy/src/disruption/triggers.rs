//! Which budgets, and which pods, to look at after a change.

use std::collections::BTreeSet;

use flyball_api::pod::{Pod, PodConditionType};
use flyball_api::{Key, Object, PodDisruptionBudget, Resource};
use flyball_cache::{Change, Origin, Store};

use super::demand::Demand;
use super::owners::Scaled;
use super::selection::budgets_selecting;
use super::stale;

/// What a change of a pod concerns.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Woken {
    /// Budgets whose counts may have changed.
    pub(super) budgets: BTreeSet<Key>,
    /// The pod itself, if it needs a look: it is in several budgets, or was to be disrupted and is still there.
    pub(super) pod: Option<Key>,
}

/// What to look at after a change of a pod.
pub(super) fn pod_changed(change: &Change<'_, Pod>, budgets: &Store<PodDisruptionBudget>) -> Woken {
    if change.origin == Origin::Resync {
        return Woken::default(); // the budgets are looked at again themselves
    }
    let of = |pod: &Pod| -> BTreeSet<Key> {
        let found = budgets_selecting(budgets, &pod.metadata.namespace, &pod.metadata.labels);
        found.iter().map(|budget| budget.key()).collect()
    };
    let Some(new) = change.new else {
        return Woken { budgets: change.old.map(|pod| of(pod)).unwrap_or_default(), pod: None };
    };
    let after = of(new);
    let needs_a_look = after.len() > 1 || stale::is_condemned(new);
    let pod = (needs_a_look && !change.old.is_some_and(|old| is_same(old, new))).then(|| new.key());
    let concerned = match change.old {
        None => after,
        Some(old) if old.metadata.labels == new.metadata.labels => {
            if is_same(old, new) {
                BTreeSet::new()
            } else {
                after
            }
        }
        Some(old) if is_same(old, new) => &of(old) ^ &after,
        Some(old) => &of(old) | &after,
    };
    Woken { budgets: concerned, pod }
}

/// Whether the pod counts for its budgets as it did before.
fn is_same(old: &Pod, new: &Pod) -> bool {
    let target = |pod: &Pod| pod.status.condition(&PodConditionType::DisruptionTarget).cloned();
    old.metadata.uid == new.metadata.uid
        && old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        && old.metadata.controller() == new.metadata.controller()
        && old.is_ready() == new.is_ready()
        && old.status.phase == new.status.phase
        && target(old) == target(new)
}

/// The budgets to look at after an owner of pods came, went or was scaled.
pub(super) fn owner_changed<T: Scaled + Resource>(
    change: &Change<'_, T>,
    budgets: &Store<PodDisruptionBudget>,
) -> BTreeSet<Key> {
    // What is there at the start is looked at with the budgets themselves.
    if matches!(change.origin, Origin::Initial | Origin::Resync) {
        return BTreeSet::new();
    }
    let is_as_before = |old: &T, new: &T| old.uid() == new.uid() && old.replicas() == new.replicas();
    let (owner, was_scaled) = match (change.old, change.new) {
        (Some(old), Some(new)) => (new, !is_as_before(old, new)),
        (None, Some(owner)) | (Some(owner), None) => (owner, true),
        (None, None) => return BTreeSet::new(),
    };
    let Some(labels) = owner.pod_labels().filter(|_| was_scaled) else { return BTreeSet::new() };
    let found = budgets_selecting(budgets, &owner.meta().namespace, labels);
    found.iter().filter(|budget| Demand::of(&budget.spec).needs_scale()).map(|b| b.key()).collect()
}
