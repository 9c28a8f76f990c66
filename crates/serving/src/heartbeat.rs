//! Whether the process's main threads still run. Pages are served by a thread of their own, which would go on saying
//! "ok" while everything else stands still.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

const EVERY: Duration = Duration::from_secs(5);
/// No computation takes that long.
const LATE_AFTER: Duration = Duration::from_secs(60);

/// The runtime that this was started on, as seen from elsewhere.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    last: Arc<Mutex<Instant>>,
}

impl Heartbeat {
    /// What the check is called where it fails.
    pub const NAME: &str = "runtime";

    /// Starts to beat on the runtime of the caller.
    pub fn start() -> Self {
        let last = Arc::new(Mutex::new(Instant::now()));
        let beating = Arc::downgrade(&last);
        tokio::spawn(async move {
            while let Some(last) = beating.upgrade() {
                *last.lock() = Instant::now();
                drop(last);
                sleep(EVERY).await;
            }
        });
        Self { last }
    }

    /// The check, if it fails: a page that lists it only then looks like upstream's.
    pub fn check(&self) -> Option<(String, Result<(), String>)> {
        let quiet = self.last.lock().elapsed();
        let reason = || format!("no task has run for {} s", quiet.as_secs());
        (quiet > LATE_AFTER).then(|| (Self::NAME.to_owned(), Err(reason())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_runtime_that_stands_still_is_reported_and_one_that_runs_is_not() {
        let heart = Heartbeat::start();
        for _ in 0..50 {
            sleep(EVERY).await;
            assert_eq!(heart.check(), None);
        }
        let before = *heart.last.lock();
        *heart.last.lock() = before - LATE_AFTER - EVERY;
        assert!(heart.check().is_some_and(|(name, result)| name == "runtime" && result.is_err()));
        sleep(EVERY).await;
        assert_eq!(heart.check(), None, "it runs again");
    }
}
