//! When to sync which autoscaler. Pure.

use std::time::Duration;

use flyball_api::Key;
use flyball_api::horizontal_pod_autoscaler::HorizontalPodAutoscaler;
use flyball_cache::Change;
use flyball_queue::Backoff;

use super::selections::Selections;

/// All syncs are one period apart, also after a failure.
pub(super) fn every(period: Duration) -> Backoff {
    Backoff { base: period, max: period, rate: 0.0, burst: 0.0 }
}

/// Keeps `selections` current; returns the autoscaler to sync one period after the change. What is remembered of one that
/// is gone is dropped by its next sync.
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
