//! The rate limit of one identity: a token bucket on tokio's clock, with the semantics of client-go's flow control.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A token bucket: starts full with `burst` tokens, refills at `qps` per second. Callers queue in order of arrival.
#[derive(Debug)]
pub struct Limiter {
    bucket: Option<Mutex<Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    qps: f64,
    burst: f64,
    /// Negative while callers wait: each has already taken the token that it waits for.
    tokens: f64,
    updated: Instant,
}

impl Limiter {
    /// `qps` of zero or less means no limit; a burst below one counts as one.
    pub fn new(qps: f64, burst: u32) -> Self {
        if qps.is_nan() || qps <= 0.0 || qps.is_infinite() {
            return Self { bucket: None };
        }
        let burst = f64::from(burst.max(1));
        Self { bucket: Some(Mutex::new(Bucket { qps, burst, tokens: burst, updated: Instant::now() })) }
    }

    /// Waits for a token, and returns how long that took. A caller that is cancelled returns its token.
    pub async fn acquire(&self) -> Duration {
        let Some(bucket) = &self.bucket else { return Duration::ZERO };
        let wait = bucket.lock().take();
        if !wait.is_zero() {
            let mut turn = Turn { bucket, waiting: true };
            tokio::time::sleep(wait).await;
            turn.waiting = false;
        }
        wait
    }

    /// Takes a token if one is available now.
    pub fn try_acquire(&self) -> bool {
        let Some(bucket) = &self.bucket else { return true };
        let mut bucket = bucket.lock();
        bucket.refill();
        let has_token = bucket.tokens >= 1.0;
        if has_token {
            bucket.tokens -= 1.0;
        }
        has_token
    }
}

impl Bucket {
    fn refill(&mut self) {
        let now = Instant::now();
        let gained = now.saturating_duration_since(self.updated).as_secs_f64() * self.qps;
        self.tokens = (self.tokens + gained).min(self.burst);
        self.updated = now;
    }

    fn take(&mut self) -> Duration {
        self.refill();
        self.tokens -= 1.0;
        if self.tokens >= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(-self.tokens / self.qps) }
    }
}

/// A reserved token, returned when its owner stops waiting.
struct Turn<'a> {
    bucket: &'a Mutex<Bucket>,
    waiting: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.waiting {
            let mut bucket = self.bucket.lock();
            bucket.tokens = (bucket.tokens + 1.0).min(bucket.burst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn elapsed(limiter: &Limiter, calls: usize) -> Duration {
        let start = Instant::now();
        for _ in 0..calls {
            limiter.acquire().await;
        }
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_at_once_and_the_rest_at_the_rate() {
        #[rustfmt::skip]
        let table = [
            // case                        qps   burst calls  takes
            ("within the burst",           20.0,   30,   30,  Duration::ZERO),
            ("one beyond it",              20.0,   30,   31,  Duration::from_millis(50)),
            ("a second's worth beyond it", 20.0,   30,   50,  Duration::from_secs(1)),
            ("no burst counts as one",      2.0,    0,    3,  Duration::from_secs(1)),
            ("zero is no limit",            0.0,    1, 1000,  Duration::ZERO),
            ("negative is no limit",       -1.0,    1, 1000,  Duration::ZERO),
            ("not a number is no limit",  f64::NAN, 1, 1000,  Duration::ZERO),
        ];
        for (case, qps, burst, calls, want) in table {
            let got = elapsed(&Limiter::new(qps, burst), calls).await;
            // tokio's timer ticks in milliseconds and rounds up.
            let slack = Duration::from_millis(calls as u64);
            assert!(got >= want && got <= want + slack, "{case}: {got:?}, wanted {want:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn idle_time_refills_no_further_than_the_burst() {
        let limiter = Limiter::new(10.0, 5);
        assert_eq!(elapsed(&limiter, 5).await, Duration::ZERO);
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(elapsed(&limiter, 5).await, Duration::ZERO);
        assert!(elapsed(&limiter, 1).await >= Duration::from_millis(100));
    }

    #[tokio::test(start_paused = true)]
    async fn callers_at_once_are_spread_over_time() {
        let limiter = std::sync::Arc::new(Limiter::new(10.0, 1));
        let start = Instant::now();
        let waits = futures::future::join_all((0..11).map(|_| limiter.acquire())).await;
        assert!(start.elapsed() >= Duration::from_secs(1));
        assert!(waits.is_sorted(), "first come, first served: {waits:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_caller_returns_its_token() {
        let limiter = Limiter::new(1.0, 1);
        limiter.acquire().await;
        for _ in 0..10 {
            let gave_up = tokio::time::timeout(Duration::from_millis(1), limiter.acquire()).await;
            assert!(gave_up.is_err());
        }
        assert!(elapsed(&limiter, 1).await <= Duration::from_millis(1001));
        assert!(!limiter.try_acquire());
    }
}
