//! Which changes may give work.

use flyball_api::{Key, Node, Service};
use flyball_cache::Change;

use super::backends::is_excluded;
use super::plan::{differ, needs_cleanup, wants_balancer};

/// The Service, if its load balancer may have to be made, changed or taken away.
pub fn service_changed(change: &Change<'_, Service>) -> Option<Key> {
    let concerns = match (change.old, change.new) {
        (None, Some(new)) => wants_balancer(new) || needs_cleanup(new),
        (Some(old), Some(new)) => differ(old, new) || needs_cleanup(new),
        // Its finalizer should have prevented that; if somebody took it away, the load balancer is still there.
        (Some(old), None) => wants_balancer(old),
        (None, None) => false,
    };
    concerns.then(|| change.key())
}

/// The one key that stands for all nodes, if load balancers may have to point to others. The taint of a node that is
/// leaving is no reason by itself: connections to it may end in peace.
pub fn node_changed(change: &Change<'_, Node>) -> Option<Key> {
    let concerns = match (change.old, change.new) {
        (Some(old), Some(new)) => {
            is_excluded(old) != is_excluded(new) || old.spec.provider_id != new.spec.provider_id
        }
        _ => true,
    };
    concerns.then(|| Key::cluster("nodes"))
}
