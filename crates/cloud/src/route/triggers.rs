//! Which changes of Nodes lead to a round, where rounds are not periodic.

use flyball_api::Node;
use flyball_cache::{Change, Origin};

/// Whether the routes may have to change. A resync counts, as the routes of the cloud may have changed.
pub fn concerns_routes(change: &Change<'_, Node>) -> bool {
    match (change.old, change.new) {
        (Some(old), Some(new)) => {
            change.origin == Origin::Resync
                || old.spec.pod_cidrs != new.spec.pod_cidrs
                || old.status.addresses != new.status.addresses
        }
        _ => true,
    }
}
