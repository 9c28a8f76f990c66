//! Which changes may lead to an eviction, or cancel one. Pods change all the time and few nodes are tainted.

use flyball_api::pod::Pod;
use flyball_api::pod_disruption_budget::PodDisruptionBudget;
use flyball_api::taint::Taint;
use flyball_api::{Key, Node};
use flyball_cache::Change;

use super::plan::no_execute;

/// Whether a node's taints may now evict other pods than before. When a node is deleted, scheduled evictions are kept.
pub fn node_changed(change: &Change<'_, Node>) -> bool {
    let Some(new) = change.new else { return false };
    let before: Vec<&Taint> =
        change.old.map(|old| no_execute(&old.spec.taints).collect()).unwrap_or_default();
    let after: Vec<&Taint> = no_execute(&new.spec.taints).collect();
    before != after
}

/// Whether a disruption budget may now allow what it refused before.
pub fn budget_changed(change: &Change<'_, PodDisruptionBudget>) -> bool {
    let allows = |budget: &PodDisruptionBudget| budget.status.disruptions_allowed > 0;
    match (change.old, change.new) {
        (None, None) => false,
        (_, None) => true,
        (old, Some(new)) => {
            allows(new)
                && old.is_none_or(|old| old.status != new.status || old.metadata.uid != new.metadata.uid)
        }
    }
}

/// Whether a pod that is to be evicted no longer serves.
pub fn has_become_unready(change: &Change<'_, Pod>) -> bool {
    matches!((change.old, change.new), (Some(old), Some(new)) if old.is_ready() && !new.is_ready())
}

/// Whether a pod was bound to a tainted node, has other tolerations there, or is gone before its eviction.
pub fn pod_changed(
    change: &Change<'_, Pod>,
    is_tainted: impl Fn(&str) -> bool,
    is_scheduled: impl Fn(&Key) -> bool,
) -> bool {
    let Some(new) = change.new else { return is_scheduled(&change.key()) };
    let is_relevant = change.old.is_none_or(|old| {
        old.spec.node_name != new.spec.node_name
            || old.spec.tolerations != new.spec.tolerations
            || old.metadata.uid != new.metadata.uid
    });
    // When a tainted node is added, it triggers its pods itself.
    is_relevant
        && !new.spec.node_name.is_empty()
        && (is_tainted(&new.spec.node_name) || is_scheduled(&change.key()))
}
