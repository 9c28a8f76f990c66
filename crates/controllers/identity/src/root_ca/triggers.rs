//! Which namespaces are synced after a change.

use flyball_api::{ConfigMap, Key, Namespace};
use flyball_cache::Change;

use super::plan::CONFIG_MAP;

/// A new namespace, or a change of an active one.
pub fn namespace_changed(change: &Change<'_, Namespace>) -> Option<Key> {
    let namespace = change.new?;
    (change.old.is_none() || namespace.status.phase == "Active").then(|| change.key())
}

/// The namespace of a ConfigMap that was changed or deleted.
pub fn published_changed(change: &Change<'_, ConfigMap>) -> Option<Key> {
    let published = change.old?;
    (published.metadata.name == CONFIG_MAP).then(|| Key::cluster(published.metadata.namespace.as_str()))
}
