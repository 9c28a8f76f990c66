//! The clock. Plans get the time as a value; shells read it here.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use flyball_api::Timestamp;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// A source of wall-clock time. Delays always use `tokio::time`; a virtual clock follows it, so that both agree under paused
/// time.
#[derive(Debug, Clone, Copy)]
pub enum Clock {
    System,
    /// A clock that showed `epoch` at `origin` and moves with tokio's.
    Virtual {
        /// What the clock showed at `origin`.
        epoch: Timestamp,
        /// The time on tokio's clock at which it was started.
        origin: Instant,
    },
    /// A clock that follows the time of one runtime, on whatever thread it is read, and can be set.
    Adjustable(&'static Epoch),
    /// A clock that does not move, while tokio's does: nothing becomes due.
    Stopped(Timestamp),
}

/// What an adjustable clock shows. It lives as long as the process, so that a clock can be copied.
#[derive(Debug)]
pub struct Epoch {
    runtime: Handle,
    origin: Instant,
    /// What the clock showed at `origin`, in microseconds since 1970.
    micros: AtomicI64,
}

impl Epoch {
    /// Shows another time from now on. Timers of the runtime are not changed.
    pub fn set(&self, now: Timestamp) {
        let elapsed = i64::try_from(self.elapsed().as_micros()).unwrap_or(i64::MAX);
        self.micros.store(now.as_microsecond().saturating_sub(elapsed), Ordering::Relaxed);
    }

    fn now(&self) -> Timestamp {
        let begun =
            Timestamp::from_microsecond(self.micros.load(Ordering::Relaxed)).unwrap_or(Timestamp::MAX);
        begun.checked_add(self.elapsed()).unwrap_or(Timestamp::MAX)
    }

    fn elapsed(&self) -> Duration {
        // Each runtime has a time of its own.
        let _runtime = self.runtime.enter();
        self.origin.elapsed()
    }
}

impl Clock {
    pub fn system() -> Self {
        Self::System
    }

    /// A clock that shows `epoch` now and moves with tokio's, paused or not.
    pub fn virtual_from(epoch: Timestamp) -> Self {
        Self::Virtual { epoch, origin: Instant::now() }
    }

    /// A clock that shows `now` and moves with the time of this runtime. To be called on it, once: what it needs is never freed.
    pub fn adjustable_from(now: Timestamp) -> (Self, &'static Epoch) {
        let epoch = Epoch {
            runtime: Handle::current(),
            origin: Instant::now(),
            micros: AtomicI64::new(now.as_microsecond()),
        };
        let epoch: &'static Epoch = Box::leak(Box::new(epoch));
        (Self::Adjustable(epoch), epoch)
    }

    pub fn stopped_at(time: Timestamp) -> Self {
        Self::Stopped(time)
    }

    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => Timestamp::now(),
            // The last possible time, if a simulation runs past it.
            Self::Virtual { epoch, origin } => epoch.checked_add(origin.elapsed()).unwrap_or(Timestamp::MAX),
            Self::Adjustable(epoch) => epoch.now(),
            Self::Stopped(time) => *time,
        }
    }

    /// How long it is until `time`; zero when it has passed.
    pub fn until(&self, time: Timestamp) -> Duration {
        Duration::try_from(time.duration_since(self.now())).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adjustable_clock_shows_the_time_of_its_runtime_on_every_thread_and_can_be_set() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let start: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let (clock, epoch) = runtime.block_on(async { Clock::adjustable_from(start) });
        runtime.block_on(async { tokio::time::sleep(Duration::from_secs(3600)).await });
        assert_eq!(clock.now().to_string(), "2026-03-01T13:00:00Z", "outside of the runtime");
        epoch.set("2026-04-01T00:00:00Z".parse().unwrap());
        runtime.block_on(async { tokio::time::sleep(Duration::from_secs(60)).await });
        assert_eq!(clock.now().to_string(), "2026-04-01T00:01:00Z");
    }
}
