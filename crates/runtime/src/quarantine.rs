//! Keys whose sync panicked. Each waits longer after every panic. The other keys of the queue and the controller do not
//! wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flyball_queue::QueueKey;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use crate::health::Health;
use crate::metrics::{Gauge, Metrics, QUARANTINED};

const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(300);

/// Shows in metrics and health how many keys of a controller are in quarantine. Dropped with the run of the controller, and
/// then shows none.
pub(crate) struct QuarantineCount {
    controller: &'static str,
    health: Health,
    shown: Gauge,
    held: AtomicUsize,
}

impl QuarantineCount {
    pub(crate) fn new(controller: &'static str, metrics: &Metrics, health: &Health) -> Self {
        let shown = metrics.gauge(&QUARANTINED, &[controller]);
        let count = Self { controller, health: health.clone(), shown, held: AtomicUsize::new(0) };
        count.show(0);
        count
    }

    fn show(&self, held: usize) {
        self.shown.set(held as f64);
        self.health.quarantined(self.controller, held);
    }

    fn enter(&self) {
        self.show(self.held.fetch_add(1, Ordering::Relaxed) + 1);
    }

    fn leave(&self) {
        self.show(self.held.fetch_sub(1, Ordering::Relaxed) - 1);
    }
}

impl Drop for QuarantineCount {
    fn drop(&mut self) {
        self.show(0);
    }
}

struct Poisoned {
    panics: u32,
    until: Instant,
}

/// The poisoned keys of one queue.
pub(crate) struct Quarantine<K> {
    keys: Mutex<FxHashMap<K, Poisoned>>,
    count: Arc<QuarantineCount>,
}

impl<K: QueueKey> Quarantine<K> {
    pub(crate) fn new(count: Arc<QuarantineCount>) -> Self {
        Self { keys: Mutex::default(), count }
    }

    /// Quarantines a key after its sync panicked, and returns for how long.
    pub(crate) fn add(&self, key: &K) -> Duration {
        let mut keys = self.keys.lock();
        if !keys.contains_key(key) {
            self.count.enter();
        }
        let poisoned = keys.entry(key.clone()).or_insert(Poisoned { panics: 0, until: Instant::now() });
        let wait = pause(poisoned.panics);
        poisoned.panics = poisoned.panics.saturating_add(1);
        poisoned.until = Instant::now() + wait;
        wait
    }

    /// How long the key has to wait; `None` when it may be tried.
    pub(crate) fn wait(&self, key: &K) -> Option<Duration> {
        let keys = self.keys.lock();
        if keys.is_empty() {
            return None;
        }
        let left = keys.get(key)?.until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Some of the keys, with the time that each still waits, and how many there are.
    pub(crate) fn some(&self, at_most: usize) -> (Vec<(K, Duration)>, usize) {
        let (keys, now) = (self.keys.lock(), Instant::now());
        let waits = |poisoned: &Poisoned| poisoned.until.saturating_duration_since(now);
        let some = keys.iter().take(at_most).map(|(key, poisoned)| (key.clone(), waits(poisoned)));
        (some.collect(), keys.len())
    }

    /// Takes a key out of quarantine after a sync without a panic.
    pub(crate) fn release(&self, key: &K) {
        let mut keys = self.keys.lock();
        if !keys.is_empty() && keys.remove(key).is_some() {
            self.count.leave();
        }
    }
}

/// The wait after a panic, by the number of panics before it.
fn pause(panics: u32) -> Duration {
    FIRST.saturating_mul(1 << panics.min(16)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::{Quarantine, QuarantineCount, pause};
    use crate::{Health, Metrics};

    #[test]
    fn waits_double_up_to_five_minutes() {
        let seconds: Vec<u64> = (0..10).map(|panics| pause(panics).as_secs()).collect();
        assert_eq!(seconds, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(pause(u32::MAX).as_secs(), 300);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_by_itself_and_is_seen_until_it_comes_through() {
        let (metrics, health) = (Metrics::default(), Health::default());
        health.healthy("x");
        let count = Arc::new(QuarantineCount::new("x", &metrics, &health));
        let (one, other) = (Quarantine::new(count.clone()), Quarantine::new(count));
        let shown =
            |n: &str| metrics.text().contains(&format!("flyball_quarantined_keys{{name=\"x\"}} {n}\n"));
        assert!(shown("0"));

        assert_eq!(one.add(&"bad"), Duration::from_secs(2));
        other.add(&"worse");
        assert!(shown("2"));
        assert_eq!(health.checks(), [("x", Ok(()))], "a poisoned object is no reason to restart the process");
        assert_eq!(health.remarks(), [("x", "2 keys in quarantine".to_owned())]);
        assert_eq!(one.wait(&"bad"), Some(Duration::from_secs(2)));
        assert_eq!(one.wait(&"worse"), None, "each queue has its own keys");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(one.wait(&"bad"), None);
        assert_eq!(one.add(&"bad"), Duration::from_secs(4));
        assert!(shown("2"), "it was there already");

        one.release(&"bad");
        one.release(&"never there");
        assert!(shown("1"));
        assert_eq!(one.add(&"bad"), Duration::from_secs(2), "a release resets the delay");
        drop((one, other));
        assert!(shown("0"));
        assert_eq!(health.remarks(), []);
    }
}
