//! A look at a queue, for people: how much work there is, and which keys stand out.

use std::time::Duration;

use tokio::time::Instant;

use crate::QueueKey;
use crate::state::State;

/// What a queue holds at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look<K> {
    /// Keys that wait for a worker.
    pub ready: usize,
    /// Keys with a delay that is not over.
    pub delayed: usize,
    /// Keys that are being processed.
    pub running: usize,
    /// Keys whose last attempt failed.
    pub failing: usize,
    /// The key that has waited for a worker for longest.
    pub oldest: Option<(K, Duration)>,
    /// The key that has been processed for longest.
    pub longest: Option<(K, Duration)>,
    /// The key with the most failures in a row.
    pub worst: Option<(K, u32)>,
}

impl<K: QueueKey> State<K> {
    /// Takes time in proportion to the keys that are queued, being processed or failing.
    pub(crate) fn look(&self, now: Instant) -> Look<K> {
        let (mut oldest, mut longest, mut worst) = (None, None, None);
        let (mut running, mut failing) = (0, 0);
        for (key, entry) in self.entries() {
            let waits = entry.wanted.filter(|_| entry.running.is_none());
            earlier(&mut oldest, key, waits.map(|(_, since)| since));
            earlier(&mut longest, key, entry.running);
            running += usize::from(entry.running.is_some());
            failing += usize::from(entry.failures > 0);
            if entry.failures > worst.map_or(0, |(_, failures)| failures) {
                worst = Some((key, entry.failures));
            }
        }
        let age = |found: Option<(&K, Instant)>| {
            found.map(|(key, since)| (key.clone(), now.saturating_duration_since(since)))
        };
        Look {
            ready: self.depth(),
            delayed: self.delayed(),
            running,
            failing,
            oldest: age(oldest),
            longest: age(longest),
            worst: worst.map(|(key, failures)| (key.clone(), failures)),
        }
    }
}

fn earlier<'a, K>(known: &mut Option<(&'a K, Instant)>, key: &'a K, since: Option<Instant>) {
    if let Some(since) = since
        && known.is_none_or(|(_, earliest)| since < earliest)
    {
        *known = Some((key, since));
    }
}
