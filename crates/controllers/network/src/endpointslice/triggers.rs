//! Which changes of nodes matter to hints. Changes of pods and slices are told in [`members`](crate::members)
//! and [`slices`](crate::slices).

use std::time::Duration;

use flyball_api::Node;
use flyball_cache::Change;

use crate::names::ZONE;

/// How long changes of slices by others are gathered at least: they seldom come alone.
const GATHER: Duration = Duration::from_secs(1);

/// How long to wait after somebody else has changed a slice.
pub(super) fn after_slice_change(batch_period: Duration) -> Duration {
    batch_period.max(GATHER)
}

/// Whether a change of a node may change the zones' sizes.
pub fn zones_changed(change: &Change<'_, Node>) -> bool {
    match (change.old, change.new) {
        (Some(old), Some(new)) => {
            old.is_ready() != new.is_ready() || old.metadata.labels.get(ZONE) != new.metadata.labels.get(ZONE)
        }
        _ => true,
    }
}
