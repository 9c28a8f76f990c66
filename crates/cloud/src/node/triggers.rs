//! Which changes of a Node are synced. Kubelets update their Node all the time, and few updates matter.

use flyball_api::{Key, Node};
use flyball_cache::Change;

use super::labels;
use super::plan::is_uninitialized;

/// The Node, if it has to be initialised or its labels have to be corrected.
pub fn node_changed(change: &Change<'_, Node>) -> Option<Key> {
    let needs_sync =
        |node: &Node| is_uninitialized(node) || !labels::drifted(&node.metadata.labels).is_empty();
    change.new.filter(|node| needs_sync(node)).map(|_| change.key())
}
