//! Whether the runtime of the controllers still makes progress. Pages are served by another thread, which would report "ok"
//! while everything else is blocked.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

const EVERY: Duration = Duration::from_secs(5);
/// Longer than any computation takes.
const LATE_AFTER: Duration = Duration::from_secs(60);

/// Observes the runtime that it was started on.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    last: Arc<Mutex<Instant>>,
}

impl Heartbeat {
    /// The name of the check.
    pub const NAME: &str = "runtime";

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

    /// The check, if it fails. Otherwise the page has the same checks as upstream's.
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
    async fn a_blocked_runtime_is_reported() {
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
