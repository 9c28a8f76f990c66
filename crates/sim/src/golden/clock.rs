//! The clock of a scenario: real, or virtual where tokio's clock is paused.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// A wall clock that moves with tokio's time.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Timestamp,
    since: Instant,
}

impl Clock {
    /// A clock that shows `start` now.
    pub fn starting_at(start: Timestamp) -> Self {
        Self { start, since: Instant::now() }
    }

    pub fn now(&self) -> Timestamp {
        self.start.checked_add(self.since.elapsed()).unwrap_or(Timestamp::MAX)
    }

    /// The present as objects carry it, moved by `seconds`.
    pub fn stamp(&self, seconds: i64) -> String {
        let moved =
            self.now().checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
        moved.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// The present with microseconds, as leases carry it.
    pub fn micro_stamp(&self) -> String {
        self.now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
    }

    /// How long it is until `second` of a minute.
    pub fn until_second(&self, second: f64) -> Duration {
        let nanos = self.now().as_nanosecond().rem_euclid(60_000_000_000);
        let in_minute = Duration::from_nanos(u64::try_from(nanos).unwrap_or_default()).as_secs_f64();
        Duration::from_secs_f64((second - in_minute).rem_euclid(60.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn follows_paused_time() {
        let clock = Clock::starting_at("2026-01-02T03:04:05.25Z".parse().unwrap());
        assert_eq!(clock.stamp(0), "2026-01-02T03:04:05Z");
        assert_eq!(clock.micro_stamp(), "2026-01-02T03:04:05.250000Z");
        assert_eq!(clock.until_second(4.0), Duration::from_secs_f64(58.75));
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(clock.stamp(-5), "2026-01-02T04:04:00Z");
    }
}
