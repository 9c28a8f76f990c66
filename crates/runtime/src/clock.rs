//! The clock. Plans get the time as a value; shells read it here.

use std::time::Duration;

use flyball_api::Timestamp;
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
    /// A clock that does not move, while tokio's does: nothing becomes due.
    Stopped(Timestamp),
}

impl Clock {
    pub fn system() -> Self {
        Self::System
    }

    /// A clock that shows `epoch` now and moves with tokio's, paused or not.
    pub fn virtual_from(epoch: Timestamp) -> Self {
        Self::Virtual { epoch, origin: Instant::now() }
    }

    pub fn stopped_at(time: Timestamp) -> Self {
        Self::Stopped(time)
    }

    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => Timestamp::now(),
            // The last possible time, if a simulation runs past it.
            Self::Virtual { epoch, origin } => epoch.checked_add(origin.elapsed()).unwrap_or(Timestamp::MAX),
            Self::Stopped(time) => *time,
        }
    }

    /// How long it is until `time`; zero when it has passed.
    pub fn until(&self, time: Timestamp) -> Duration {
        Duration::try_from(time.duration_since(self.now())).unwrap_or_default()
    }
}
