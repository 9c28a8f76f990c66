//! Which changes may alter a decision. Pods change all the time and few nodes are tainted, so most changes are none.

use flyball_api::pod::Pod;
use flyball_api::taint::Taint;
use flyball_api::{Key, Node};
use flyball_cache::Change;

use super::plan::no_execute;

/// Whether a node's taints may now evict other pods than before. When a node goes, what was decided stands.
pub fn node_changed(change: &Change<'_, Node>) -> bool {
    let Some(new) = change.new else { return false };
    let before: Vec<&Taint> =
        change.old.map(|old| no_execute(&old.spec.taints).collect()).unwrap_or_default();
    let after: Vec<&Taint> = no_execute(&new.spec.taints).collect();
    before != after
}

/// Whether a pod has come to a tainted node, has other tolerations there, or has gone before it was evicted.
pub fn pod_changed(
    change: &Change<'_, Pod>,
    is_tainted: impl Fn(&str) -> bool,
    is_booked: impl Fn(&Key) -> bool,
) -> bool {
    let Some(new) = change.new else { return is_booked(&change.key()) };
    let is_news = change.old.is_none_or(|old| {
        old.spec.node_name != new.spec.node_name
            || old.spec.tolerations != new.spec.tolerations
            || old.metadata.uid != new.metadata.uid
    });
    // A node that is not known yet brings its pods itself, once it comes with a taint.
    is_news && !new.spec.node_name.is_empty() && (is_tainted(&new.spec.node_name) || is_booked(&change.key()))
}
