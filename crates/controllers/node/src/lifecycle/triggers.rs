//! Which changes need a sync. Heartbeats change nodes all the time; few of them change taints or labels.

use flyball_api::Node;
use flyball_api::pod::Pod;
use flyball_cache::{Change, Origin};

use super::{labels, taints};

/// Whether a node's taints or labels are not what they should be.
pub fn node_changed(change: &Change<'_, Node>) -> bool {
    change.new.is_some_and(|node| {
        let change = taints::no_schedule(node);
        !change.add.is_empty() || !change.remove.is_empty() || labels::patch(&node.metadata.labels).is_some()
    })
}

/// Whether a pod was just bound to a node. The monitor marks those that were there at the start.
pub fn pod_changed(change: &Change<'_, Pod>) -> bool {
    let Some(new) = change.new else { return false };
    let is_new = !matches!(change.origin, Origin::Initial | Origin::Resync);
    is_new
        && !new.spec.node_name.is_empty()
        && change.old.is_none_or(|old| old.spec.node_name != new.spec.node_name)
}
