//! When to reconcile a namespace. Pure.

use std::time::Duration;

use flyball_api::{Key, Namespace, Object};
use flyball_cache::Change;

/// Time for all API servers to observe that nothing may be created in the namespace any more.
pub const GRACE: Duration = Duration::from_secs(5);

pub fn namespace_changed(change: &Change<'_, Namespace>) -> Option<(Key, Duration)> {
    change.new.filter(|namespace| namespace.is_deleting()).map(|namespace| (namespace.key(), GRACE))
}
