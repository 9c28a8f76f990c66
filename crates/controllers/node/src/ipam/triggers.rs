//! Which changes need a sync. Pure.

use flyball_api::Node;
use flyball_cache::Change;

/// Whether a node may need podCIDRs, or has got others than before.
pub fn node_changed(change: &Change<'_, Node>) -> bool {
    change.new.is_some_and(|node| {
        let is_changed = change.old.is_none_or(|old| old.spec.pod_cidrs != node.spec.pod_cidrs);
        node.spec.pod_cidrs.is_empty() || is_changed
    })
}
