//! Which namespaces are synced after a change.

use flyball_api::{Key, Namespace, ServiceAccount};
use flyball_cache::Change;

use super::plan::WANTED;

/// Any change of a namespace but its deletion, which deletes its accounts, too.
pub fn namespace_changed(change: &Change<'_, Namespace>) -> Option<Key> {
    change.new.map(|_| change.key())
}

/// The namespace of a wanted account that was deleted.
pub fn account_changed(change: &Change<'_, ServiceAccount>) -> Option<Key> {
    let gone = change.old.filter(|_| change.new.is_none())?;
    WANTED.contains(&gone.metadata.name.as_str()).then(|| Key::cluster(gone.metadata.namespace.as_str()))
}
