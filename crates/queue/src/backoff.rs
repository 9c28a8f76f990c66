//! Delays of failing keys: exponential for each key, with one overall rate limit.

use std::time::Duration;

use tokio::time::Instant;

/// The default is client-go's: 5 ms doubling to 1000 s for each key, and ten retries a second with a burst of a hundred for
/// the whole queue.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// Delay after the first failure of a key.
    pub base: Duration,
    /// Longest delay of a key.
    pub max: Duration,
    /// Retries per second of the whole queue, in the long run; 0 for no overall limit.
    pub rate: f64,
    /// Retries of the whole queue that may come at once.
    pub burst: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_millis(5), max: Duration::from_secs(1000), rate: 10.0, burst: 100.0 }
    }
}

impl Backoff {
    /// A key's own delay, given how often it has failed before.
    pub fn delay(&self, failures: u32) -> Duration {
        let factor = 1u32.checked_shl(failures.min(31)).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.max)
    }
}

/// A token bucket with reservations: the number of tokens may become negative, and the caller waits.
#[derive(Debug)]
pub(crate) struct Bucket {
    rate: f64,
    burst: f64,
    tokens: f64,
    at: Option<Instant>,
}

impl Bucket {
    pub(crate) fn new(rate: f64, burst: f64) -> Self {
        Self { rate, burst, tokens: burst, at: None }
    }

    /// Takes one token, and returns how long to wait for it.
    pub(crate) fn reserve(&mut self, now: Instant) -> Duration {
        if self.rate <= 0.0 {
            return Duration::ZERO;
        }
        let passed = self.at.map_or(0.0, |at| now.duration_since(at).as_secs_f64());
        self.at = Some(now);
        self.tokens = (self.tokens + passed * self.rate).min(self.burst) - 1.0;
        if self.tokens >= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(-self.tokens / self.rate) }
    }
}
