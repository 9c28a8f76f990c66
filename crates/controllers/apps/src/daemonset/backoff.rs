//! The backoff for failed pods on one node: one second, then two, and so on up to 15 minutes. The kubelet may reject every
//! new pod.

use std::time::Duration;

use flyball_api::{DaemonSet, Timestamp, Uid};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

pub const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// The backoff of a node is reset after this time without a failure.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30 * 60);
/// How often old entries are removed.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// A set in one of its generations, on one node: a new template resets the backoff.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Place {
    set: Uid,
    generation: i64,
    node: SmolStr,
}

impl Place {
    fn of(set: &DaemonSet, node: &str) -> Self {
        Self { set: set.metadata.uid.clone(), generation: set.status.observed_generation, node: node.into() }
    }
}

#[derive(Debug, Default)]
struct Entries {
    by_place: FxHashMap<Place, (Duration, Timestamp)>,
    swept: Option<Timestamp>,
}

/// The backoff of all sets and nodes.
#[derive(Debug, Default)]
pub struct Backoff(Mutex<Entries>);

impl Backoff {
    /// The remaining backoff on a node; `None` once it is over.
    pub fn wait(&self, set: &DaemonSet, node: &str, now: Timestamp) -> Option<Duration> {
        let entries = self.0.lock();
        let (wait, since) = *entries.by_place.get(&Place::of(set, node))?;
        (age(since, now) < wait).then_some(wait)
    }

    /// A failed pod is replaced: doubles the next backoff on its node.
    pub fn failed(&self, set: &DaemonSet, node: &str, now: Timestamp) {
        let mut entries = self.0.lock();
        if entries.swept.is_none_or(|swept| age(swept, now) >= SWEEP_EVERY) {
            entries.by_place.retain(|_, (_, since)| age(*since, now) <= FORGOTTEN_AFTER);
            entries.swept = Some(now);
        }
        let place = Place::of(set, node);
        let last = entries.by_place.get(&place).filter(|(_, since)| age(*since, now) <= FORGOTTEN_AFTER);
        let wait = last.map_or(FIRST, |(wait, _)| (*wait * 2).min(LONGEST));
        entries.by_place.insert(place, (wait, now));
    }
}

fn age(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_doubles_up_to_fifteen_minutes_and_is_reset() {
        let (backoff, set) = (Backoff::default(), DaemonSet::default());
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(backoff.wait(&set, "n", at(0)), None);
        let mut now = 0;
        for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900] {
            backoff.failed(&set, "n", at(now));
            assert_eq!(backoff.wait(&set, "n", at(now)), Some(Duration::from_secs(seconds)));
            now += i64::try_from(seconds).unwrap();
            assert_eq!(backoff.wait(&set, "n", at(now)), None, "after {seconds}");
        }
        assert_eq!(backoff.wait(&set, "other", at(now)), None);
        backoff.failed(&set, "n", at(now + 1801));
        assert_eq!(backoff.wait(&set, "n", at(now + 1801)), Some(FIRST));
    }

    #[test]
    fn a_new_generation_resets_the_backoff_and_old_entries_are_removed() {
        let backoff = Backoff::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut set = DaemonSet::default();
        backoff.failed(&set, "n", at(0));
        set.status.observed_generation = 2;
        assert_eq!(backoff.wait(&set, "n", at(0)), None);
        backoff.failed(&set, "n", at(4000));
        assert_eq!(backoff.0.lock().by_place.len(), 1);
    }
}
