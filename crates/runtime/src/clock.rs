//! What time it is. Decisions get the time as a value; this is where the shells take it from.

use std::time::Duration;

use flyball_api::Timestamp;
use tokio::time::Instant;

/// A source of wall-clock time. Waiting is always done with `tokio::time`; a virtual clock follows it, so
/// that under paused time five minutes pass in no time and both agree on how long they were.
#[derive(Debug, Clone, Copy)]
pub enum Clock {
    System,
    /// A clock that showed `epoch` at `origin` and moves with tokio's.
    Virtual {
        /// What the clock showed at `origin`.
        epoch: Timestamp,
        /// The moment on tokio's clock at which it was started.
        origin: Instant,
    },
    /// A clock that stands still, while tokio's goes on: nothing ever becomes due, and whatever is done is not done
    /// because of the time.
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

    /// A clock that shows `moment` for ever.
    pub fn stopped_at(moment: Timestamp) -> Self {
        Self::Stopped(moment)
    }

    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => Timestamp::now(),
            // A simulation that outlives the calendar stays at its end.
            Self::Virtual { epoch, origin } => epoch.checked_add(origin.elapsed()).unwrap_or(Timestamp::MAX),
            Self::Stopped(moment) => *moment,
        }
    }

    /// How long it is until `moment`; zero when it has passed.
    pub fn until(&self, moment: Timestamp) -> Duration {
        Duration::try_from(moment.duration_since(self.now())).unwrap_or_default()
    }
}
