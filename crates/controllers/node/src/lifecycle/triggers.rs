//! Which changes need a look. Heartbeats change nodes all the time; few of them change what we have to say.

use flyball_api::Node;
use flyball_api::pod::Pod;
use flyball_cache::{Change, Origin};

use super::{labels, taints};

/// Whether a node's taints or labels are not what its conditions ask for.
pub fn node_changed(change: &Change<'_, Node>) -> bool {
    change.new.is_some_and(|node| {
        let swap = taints::no_schedule(node);
        !swap.add.is_empty() || !swap.remove.is_empty() || labels::patch(&node.metadata.labels).is_some()
    })
}

/// Whether a pod has just come to a node. Those that were there before us are dealt with node by node.
pub fn pod_changed(change: &Change<'_, Pod>) -> bool {
    let Some(new) = change.new else { return false };
    let news = !matches!(change.origin, Origin::Initial | Origin::Resync);
    news && !new.spec.node_name.is_empty()
        && change.old.is_none_or(|old| old.spec.node_name != new.spec.node_name)
}
