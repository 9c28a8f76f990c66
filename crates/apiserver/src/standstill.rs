//! Keeps virtual time where it is. Paused tokio time moves on by itself as soon as no task can run, which is wrong while another
//! process or another thread is still at work.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// Until it is dropped, paused time does not move by itself. Without effect on time that is not paused.
#[derive(Debug)]
#[must_use]
pub struct Standstill {
    _release: SyncSender<()>,
}

impl Standstill {
    /// Begins now. It must be called on the runtime whose time is meant, one of a single thread. After `limit` of real time it
    /// ends by itself.
    pub fn begin(limit: Option<Duration>) -> Self {
        // tokio's documented way: time stands still while a blocking task runs.
        let (release, released) = sync_channel::<()>(0);
        tokio::task::spawn_blocking(move || {
            let _ = match limit {
                Some(limit) => released.recv_timeout(limit).is_ok(),
                None => released.recv().is_ok(),
            };
        });
        Self { _release: release }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Instant, sleep};

    #[tokio::test(start_paused = true)]
    async fn time_moves_only_after_the_standstill() {
        let begun = Instant::now();
        let (said, heard) = tokio::sync::oneshot::channel();
        let standstill = Standstill::begin(None);
        let sleeper = tokio::spawn(sleep(Duration::from_secs(60)));
        std::thread::spawn(move || said.send(()));
        heard.await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO, "nothing could run, and time stood still");
        drop(standstill);
        sleeper.await.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_secs(60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_is_of_real_time() {
        let begun = Instant::now();
        let _standstill = Standstill::begin(Some(Duration::from_millis(1)));
        sleep(Duration::from_secs(60)).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(60));
    }
}
