//! Which aggregated roles are synced after a change.

use std::sync::Arc;

use flyball_api::cluster_role::ClusterRole;
use flyball_api::{Key, Object};
use flyball_cache::Change;

use super::plan::selects;

/// The changed role itself, if it is aggregated, and those of `aggregated` that select it or did before.
pub fn role_changed(change: &Change<'_, ClusterRole>, aggregated: &[Arc<ClusterRole>]) -> Vec<Key> {
    let mut keys: Vec<Key> = change
        .new
        .filter(|role| role.aggregation_rule.is_some())
        .map(|role| role.key())
        .into_iter()
        .collect();
    let is_relevant = match (change.old, change.new) {
        (Some(old), Some(new)) => old.rules != new.rules || old.metadata.labels != new.metadata.labels,
        _ => true,
    };
    if is_relevant {
        let seen = [change.old, change.new].into_iter().flatten();
        let sides: Vec<&Arc<ClusterRole>> = seen.collect();
        let concerned = aggregated.iter().filter(|role| sides.iter().any(|side| selects(role, side)));
        keys.extend(concerned.map(|role| role.key()));
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}
