//! How long to wait after a failure before the next try; the same for all that is done to disks and volumes.
//!
//! Upstream: `pkg/util/goroutinemap/exponentialbackoff`.

use std::time::Duration;

use tokio::time::Instant;

/// The wait after a first failure; each further one doubles it.
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(2 * 60 + 2);

/// The failures in a row of one undertaking, and when it may be tried again.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rest {
    failures: u32,
    until: Option<Instant>,
}

impl Rest {
    /// Whether the last try has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// Whether the last try has failed and the next one is not due.
    pub(crate) fn is_on(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// How long until the next try is due.
    pub(crate) fn left(&self, now: Instant) -> Option<Duration> {
        self.until.map(|until| until.duration_since(now)).filter(|left| !left.is_zero())
    }

    /// A try has failed: the next one is due after a while, which is returned.
    pub(crate) fn failed(&mut self, now: Instant) -> Duration {
        let rest = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        *self = Self { failures: self.failures.saturating_add(1), until: Some(now + rest) };
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_in_a_row_makes_the_next_try_later() {
        let (mut rest, now) = (Rest::default(), Instant::now());
        let rests: Vec<u128> = (0..10).map(|_| rest.failed(now).as_millis()).collect();
        assert_eq!(rests, [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 122_000, 122_000]);
        assert!(rest.is_on(now) && !rest.is_on(now + LONGEST));
        assert_eq!(rest.left(now), Some(LONGEST));
    }
}
