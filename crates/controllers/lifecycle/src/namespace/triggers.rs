//! When to look at a namespace.

use std::time::Duration;

use flyball_api::{Key, Namespace, Object};
use flyball_cache::Change;

/// All API servers must have learnt that nothing may be created in the namespace any more.
pub const GRACE: Duration = Duration::from_secs(5);

/// A namespace that is being deleted, a while after it has changed.
pub fn namespace_changed(change: &Change<'_, Namespace>) -> Option<(Key, Duration)> {
    change.new.filter(|namespace| namespace.is_deleting()).map(|namespace| (namespace.key(), GRACE))
}
