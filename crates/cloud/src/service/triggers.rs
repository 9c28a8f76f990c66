//! Which Services are synced after a change.

use flyball_api::{Key, Node, Service};
use flyball_cache::Change;

use super::backends::is_excluded;
use super::plan::{differ, needs_cleanup, wants_balancer};

/// The Service, if its load balancer may have to be created, updated or deleted.
pub fn service_changed(change: &Change<'_, Service>) -> Option<Key> {
    let concerns = match (change.old, change.new) {
        (None, Some(new)) => wants_balancer(new) || needs_cleanup(new),
        (Some(old), Some(new)) => differ(old, new) || needs_cleanup(new),
        // If the finalizer was removed by hand, the load balancer still exists.
        (Some(old), None) => wants_balancer(old),
        (None, None) => false,
    };
    concerns.then(|| change.key())
}

/// The one key for all nodes, if load balancers may have to point to others. The taint of the cluster autoscaler alone does
/// not count, so that connections to the node can end.
pub fn node_changed(change: &Change<'_, Node>) -> Option<Key> {
    let concerns = match (change.old, change.new) {
        (Some(old), Some(new)) => {
            is_excluded(old) != is_excluded(new) || old.spec.provider_id != new.spec.provider_id
        }
        _ => true,
    };
    concerns.then(|| Key::cluster("nodes"))
}
