//! Which budgets and pods a change concerns. Pure.

use std::collections::BTreeSet;

use flyball_api::pod::{Pod, PodConditionType};
use flyball_api::{Key, Object, PodDisruptionBudget, Resource};
use flyball_cache::{Change, Origin, Store};

use super::demand::Demand;
use super::owners::Scaled;
use super::selection::budgets_selecting;
use super::stale;

/// What to sync after a change of a pod.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Concerned {
    /// Budgets whose status may change.
    pub(super) budgets: BTreeSet<Key>,
    /// The pod itself, if it is in several budgets or has the condition `DisruptionTarget`.
    pub(super) pod: Option<Key>,
}

pub(super) fn pod_changed(change: &Change<'_, Pod>, budgets: &Store<PodDisruptionBudget>) -> Concerned {
    if change.origin == Origin::Resync {
        return Concerned::default(); // budgets are resynced themselves
    }
    let of = |pod: &Pod| -> BTreeSet<Key> {
        let found = budgets_selecting(budgets, &pod.metadata.namespace, &pod.metadata.labels);
        found.iter().map(|budget| budget.key()).collect()
    };
    let Some(new) = change.new else {
        return Concerned { budgets: change.old.map(|pod| of(pod)).unwrap_or_default(), pod: None };
    };
    let after = of(new);
    let needs_sync = after.len() > 1 || stale::is_target(new);
    let pod = (needs_sync && !change.old.is_some_and(|old| is_same(old, new))).then(|| new.key());
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
    Concerned { budgets: concerned, pod }
}

/// Whether the pod is the same for its budgets.
fn is_same(old: &Pod, new: &Pod) -> bool {
    let target = |pod: &Pod| pod.status.condition(&PodConditionType::DisruptionTarget).cloned();
    old.metadata.uid == new.metadata.uid
        && old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        && old.metadata.controller() == new.metadata.controller()
        && old.is_ready() == new.is_ready()
        && old.status.phase == new.status.phase
        && target(old) == target(new)
}

/// The budgets to sync after an owner of pods was created, deleted or scaled.
pub(super) fn owner_changed<T: Scaled + Resource>(
    change: &Change<'_, T>,
    budgets: &Store<PodDisruptionBudget>,
) -> BTreeSet<Key> {
    // Budgets are synced themselves then.
    if matches!(change.origin, Origin::Initial | Origin::Resync) {
        return BTreeSet::new();
    }
    let is_same_scale = |old: &T, new: &T| old.uid() == new.uid() && old.replicas() == new.replicas();
    let (owner, was_scaled) = match (change.old, change.new) {
        (Some(old), Some(new)) => (new, !is_same_scale(old, new)),
        (None, Some(owner)) | (Some(owner), None) => (owner, true),
        (None, None) => return BTreeSet::new(),
    };
    let Some(labels) = owner.pod_labels().filter(|_| was_scaled) else { return BTreeSet::new() };
    let found = budgets_selecting(budgets, &owner.meta().namespace, labels);
    found.iter().filter(|budget| Demand::of(&budget.spec).needs_scale()).map(|b| b.key()).collect()
}
