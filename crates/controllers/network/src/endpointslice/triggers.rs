//! Which changes of nodes concern hints. Changes of pods and slices are in [`members`](crate::members) and
//! [`slices`](crate::slices).

use std::time::Duration;

use flyball_api::Node;
use flyball_api::topology::ZONE;
use flyball_cache::Change;

/// The least time to collect changes of slices by other clients.
const MIN_DELAY: Duration = Duration::from_secs(1);

/// The delay of a sync after another client has changed a slice.
pub(super) fn slice_change_delay(batch_period: Duration) -> Duration {
    batch_period.max(MIN_DELAY)
}

/// Whether a change of a node may change the sizes of the zones.
pub fn zones_changed(change: &Change<'_, Node>) -> bool {
    match (change.old, change.new) {
        (Some(old), Some(new)) => {
            old.is_ready() != new.is_ready() || old.metadata.labels.get(ZONE) != new.metadata.labels.get(ZONE)
        }
        _ => true,
    }
}
