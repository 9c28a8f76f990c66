//! Which changes of Nodes bring another round, where rounds do not come by themselves.

use flyball_api::Node;
use flyball_cache::{Change, Origin};

/// Whether the routes may have to change; a Node that is merely looked at again stands for a look at the cloud.
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
