//! When to look at which autoscaler.

use std::time::Duration;

use flyball_api::Key;
use flyball_api::horizontal_pod_autoscaler::HorizontalPodAutoscaler;
use flyball_cache::Change;
use flyball_queue::Backoff;

use super::selections::Selections;

/// All looks are one period apart, those that fail as well.
pub(super) fn every(period: Duration) -> Backoff {
    Backoff { base: period, max: period, rate: 0.0, burst: 0.0 }
}

/// Keeps account of who is there; gives the autoscaler to look at one period after the change. One that is gone is
/// forgotten when its time comes.
pub(super) fn changed(
    change: &Change<'_, HorizontalPodAutoscaler>,
    selections: &mut Selections,
) -> Option<Key> {
    let key = change.key();
    match change.new {
        Some(_) => selections.add(&key),
        None => selections.remove(&key),
    }
    change.new.map(|_| key)
}
