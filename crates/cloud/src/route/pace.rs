//! Limits the rate of rounds that are triggered by changes.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The first round comes at once, the next ones at least a period later. No wait is longer than a period.
pub(super) struct Pace {
    period: Duration,
    last: Mutex<Option<Instant>>,
}

impl Pace {
    pub(super) fn new(period: Duration) -> Self {
        Self { period, last: Mutex::new(None) }
    }

    /// How long the next round has to wait.
    pub(super) fn wait(&self) -> Duration {
        let now = Instant::now();
        let mut last = self.last.lock();
        let due = last.map_or(now, |last| (last + self.period).clamp(now, now + self.period));
        *last = Some(due);
        due - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn frequent_changes_do_not_make_the_wait_longer() {
        let pace = Pace::new(Duration::from_secs(10));
        let waits: Vec<u64> = (0..4).map(|_| pace.wait().as_secs()).collect();
        assert_eq!(waits, [0, 10, 10, 10]);
        tokio::time::advance(Duration::from_secs(15)).await;
        assert_eq!(pace.wait().as_secs(), 5);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(pace.wait().as_secs(), 0);
    }
}
