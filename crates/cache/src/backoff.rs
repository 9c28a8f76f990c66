//! The delay after a failure: client-go's reflector timings.

use std::time::Duration;

use rand::Rng;
use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(800);
const LONGEST: Duration = Duration::from_secs(30);
/// The delay starts over after this long without a failure.
const FORGET_AFTER: Duration = Duration::from_secs(120);

/// Doubling delays, each with a jitter of up to its own length, so that informers do not all retry at once.
#[derive(Default)]
pub(crate) struct Backoff {
    failures: u32,
    last: Option<Instant>,
}

impl Backoff {
    /// Counts a failure and returns the delay after it.
    pub(crate) fn next(&mut self, rng: &mut impl Rng) -> Duration {
        let now = Instant::now();
        if self.last.is_some_and(|last| now.duration_since(last) > FORGET_AFTER) {
            self.failures = 0;
        }
        let delay = LONGEST.min(FIRST.saturating_mul(1 << self.failures.min(16)));
        self.failures = self.failures.saturating_add(1);
        let delay = delay.mul_f64(1.0 + rng.random::<f64>());
        self.last = Some(now + delay);
        delay
    }

    /// Whether nothing has failed since the last success.
    pub(crate) fn is_fresh(&self) -> bool {
        self.failures == 0
    }

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_double_from_800_ms_to_30_s_and_start_over_after_success_or_two_quiet_minutes() {
        let rng = &mut StdRng::seed_from_u64(1);
        let mut backoff = Backoff::default();
        for millis in [800, 1600, 3200, 6400, 12800, 25600, 30000, 30000] {
            let base = Duration::from_millis(millis);
            let delay = backoff.next(rng);
            assert!(delay >= base && delay < base * 2, "{delay:?} for {base:?}");
        }
        backoff.reset();
        assert!(backoff.is_fresh() && backoff.next(rng) < FIRST * 2);
        backoff.next(rng);
        tokio::time::advance(Duration::from_secs(130)).await;
        assert!(backoff.next(rng) < FIRST * 2);
    }
}
