//! Which changes of a Node are synced. Kubelets update their Nodes often, and few of these updates are relevant.

use flyball_api::{Key, Node};
use flyball_cache::Change;

use super::labels;
use super::plan::is_uninitialized;

/// The Node, if it has to be initialised, if its labels have to be corrected, or if it was deleted: then what is remembered about
/// it is removed.
pub fn node_changed(change: &Change<'_, Node>) -> Option<Key> {
    let needs_sync =
        |node: &Node| is_uninitialized(node) || !labels::drifted(&node.metadata.labels).is_empty();
    change.new.is_none_or(|node| needs_sync(node)).then(|| change.key())
}
