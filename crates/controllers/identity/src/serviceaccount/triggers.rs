//! Which namespaces to look at after a change.

use flyball_api::{Key, Namespace, ServiceAccount};
use flyball_cache::Change;

use super::plan::WANTED;

/// A namespace that is there is looked at; one that is gone takes its accounts with it.
pub fn namespace_changed(change: &Change<'_, Namespace>) -> Option<Key> {
    change.new.map(|_| change.key())
}

/// Only the loss of a wanted account concerns us.
pub fn account_changed(change: &Change<'_, ServiceAccount>) -> Option<Key> {
    let gone = change.old.filter(|_| change.new.is_none())?;
    WANTED.contains(&gone.metadata.name.as_str()).then(|| Key::cluster(gone.metadata.namespace.as_str()))
}
