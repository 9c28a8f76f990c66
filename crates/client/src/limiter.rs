//! The rate limit of one identity: a token bucket on tokio's clock, with the semantics of client-go's flow control.
//!
//! At high rates, callers do not wake one by one: each timer, TLS record and system call would carry one request. They wake
//! together on a grid of a few milliseconds, always after their tokens have been refilled.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// At rates that refill several tokens within this time, callers wake at multiples of it.
const GRID: Duration = Duration::from_millis(4);

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
    /// Where the grid begins; `None` if callers wake one by one.
    grid: Option<Instant>,
}

impl Limiter {
    /// `qps` of zero or less means no limit; a burst below one counts as one.
    pub fn new(qps: f64, burst: u32) -> Self {
        if qps.is_nan() || qps <= 0.0 || qps.is_infinite() {
            return Self { bucket: None };
        }
        let (burst, updated) = (f64::from(burst.max(1)), Instant::now());
        let grid = (qps * GRID.as_secs_f64() >= 2.0).then_some(updated);
        Self { bucket: Some(Mutex::new(Bucket { qps, burst, tokens: burst, updated, grid })) }
    }

    /// Waits for a token, and returns how long that took. A caller that is cancelled returns its token.
    pub async fn acquire(&self) -> Duration {
        let Some(bucket) = &self.bucket else { return Duration::ZERO };
        let (since, wait) = bucket.lock().take();
        if !wait.is_zero() {
            let mut turn = Turn { bucket, waiting: true };
            match since.checked_add(wait) {
                // Not `sleep`, which would read the clock again: callers must wake at exactly the same time.
                Some(until) => tokio::time::sleep_until(until).await,
                None => tokio::time::sleep(wait).await,
            }
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

    /// Takes a token. Returns the time, and how long to wait from then on.
    fn take(&mut self) -> (Instant, Duration) {
        self.refill();
        self.tokens -= 1.0;
        (self.updated, self.wait())
    }

    fn wait(&self) -> Duration {
        if self.tokens >= 0.0 {
            return Duration::ZERO;
        }
        let wait = Duration::try_from_secs_f64(-self.tokens / self.qps).unwrap_or(Duration::MAX);
        self.grid.map_or(wait, |origin| {
            let late = self.updated.saturating_duration_since(origin).saturating_add(wait);
            wait.saturating_add(until_next(late))
        })
    }
}

/// From a time on the grid's clock to the next multiple of the grid.
fn until_next(since_origin: Duration) -> Duration {
    let beyond = since_origin.as_nanos() % GRID.as_nanos();
    let rest = if beyond == 0 { 0 } else { GRID.as_nanos() - beyond };
    Duration::from_nanos(u64::try_from(rest).unwrap_or_default())
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
    async fn a_rate_beyond_the_range_of_durations_is_no_panic() {
        for qps in [1e-30, f64::MIN_POSITIVE] {
            let limiter = Limiter::new(qps, 1);
            limiter.acquire().await;
            let waits = tokio::time::timeout(Duration::from_secs(3600), limiter.acquire()).await;
            assert!(waits.is_err());
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

    /// When each of `calls` callers at once, in order of arrival, passed.
    async fn passed(qps: f64, burst: u32, calls: usize) -> Vec<Duration> {
        let limiter = std::sync::Arc::new(Limiter::new(qps, burst));
        let start = Instant::now();
        let passed = std::sync::Arc::new(Mutex::new(vec![]));
        let callers = (0..calls).map(|caller| {
            let (limiter, passed) = (limiter.clone(), passed.clone());
            tokio::spawn(async move {
                limiter.acquire().await;
                passed.lock().push((caller, start.elapsed()));
            })
        });
        futures::future::join_all(callers.collect::<Vec<_>>()).await;
        let passed = std::mem::take(&mut *passed.lock());
        assert!(passed.is_sorted_by_key(|(caller, _)| *caller), "first come, first served: {passed:?}");
        passed.into_iter().map(|(_, at)| at).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn at_high_rates_callers_wake_together_and_never_too_early() {
        for (qps, burst) in [(1000.0, 1), (1000.0, 30), (777.0, 5), (5000.0, 10)] {
            let passed = passed(qps, burst, 500).await;
            for (earlier, at) in passed.iter().enumerate() {
                let refilled = f64::from(burst) + at.as_secs_f64() * qps;
                assert!(
                    (earlier + 1) as f64 <= refilled + 1e-6,
                    "number {earlier} at {at:?} at {qps} per second"
                );
            }
            let mut times = passed.clone();
            times.dedup();
            let took = times[times.len() - 1];
            let most = took.as_millis() / GRID.as_millis() + 1;
            assert!(times.len() as u128 <= most, "{} wake-ups in {took:?}", times.len());
            let ideal = Duration::from_secs_f64((500.0 - f64::from(burst)) / qps);
            assert!(took <= ideal + GRID + Duration::from_millis(1), "{took:?} for {ideal:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn at_low_rates_no_caller_waits_for_the_grid() {
        // The first of them waits for 5 ms: not a multiple of the grid.
        let passed = passed(200.0, 1, 20).await;
        let exact = |number: usize| Duration::from_millis(5 * number as u64);
        let slack = Duration::from_millis(1);
        assert!(passed.iter().enumerate().all(|(n, at)| *at <= exact(n) + slack), "{passed:?}");
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
