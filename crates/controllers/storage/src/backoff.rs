//! How long to wait after a failed operation on a volume before the next attempt.
//!
//! Upstream: `pkg/util/goroutinemap/exponentialbackoff`.

use std::time::Duration;

use tokio::time::Instant;

/// The delay after a first failure; each further one doubles it.
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(2 * 60 + 2);

/// The failures in a row of one operation, and when it may be tried again.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Backoff {
    failures: u32,
    until: Option<Instant>,
}

impl Backoff {
    /// Whether the last attempt has failed and the next one is not due.
    pub(crate) fn is_active(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// The time until the next attempt is due.
    pub(crate) fn remaining(&self, now: Instant) -> Option<Duration> {
        self.until.map(|until| until.duration_since(now)).filter(|left| !left.is_zero())
    }

    /// Records a failure. Returns the delay until the next attempt.
    pub(crate) fn failed(&mut self, now: Instant) -> Duration {
        let delay = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        *self = Self { failures: self.failures.saturating_add(1), until: Some(now + delay) };
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_in_a_row_doubles_the_delay_up_to_a_limit() {
        let (mut backoff, now) = (Backoff::default(), Instant::now());
        let delays: Vec<u128> = (0..10).map(|_| backoff.failed(now).as_millis()).collect();
        assert_eq!(delays, [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 122_000, 122_000]);
        assert!(backoff.is_active(now) && !backoff.is_active(now + LONGEST));
        assert_eq!(backoff.remaining(now), Some(LONGEST));
    }
}
