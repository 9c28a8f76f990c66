//! Which changes of a Node may give work. Kubelets report all the time and few reports concern us.

use flyball_api::{Key, Node};
use flyball_cache::Change;

use super::plan::{Work, plan};

/// The Node, if there is something to do for it.
pub fn node_changed(change: &Change<'_, Node>) -> Option<Key> {
    change.new.filter(|node| plan(node) != Work::Nothing).map(|_| change.key())
}
