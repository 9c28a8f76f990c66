//! Contact with the server: whether it responds to any informer of the process, and for how long it has done so in total.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flyball_latest as latest;
use tokio::time::Instant;

/// A clock that stands still while the server cannot be reached. Shared by all informers of the process.
pub(crate) struct Contact {
    /// So that an event of a watch costs no lock.
    is_lost: AtomicBool,
    clock: latest::Sender<Clock>,
}

#[derive(Clone, Copy, Default)]
struct Clock {
    /// Until the latest loss.
    total: Duration,
    running_since: Option<Instant>,
}

impl Default for Contact {
    fn default() -> Self {
        Self { is_lost: AtomicBool::new(true), clock: latest::Sender::default() }
    }
}

impl Contact {
    /// The server has responded.
    pub(crate) fn found(&self) {
        if !self.is_lost.load(Ordering::Acquire) {
            return;
        }
        self.clock.send_if_modified(|clock| {
            self.is_lost.store(false, Ordering::Release);
            let was_lost = clock.running_since.is_none();
            clock.running_since.get_or_insert_with(Instant::now);
            was_lost
        });
    }

    /// A request got no response.
    pub(crate) fn lost(&self) {
        self.clock.send_modify(|clock| {
            self.is_lost.store(true, Ordering::Release);
            clock.total += clock.running_since.take().map_or(Duration::ZERO, |since| since.elapsed());
        });
    }

    /// For how long the server has responded, in total.
    pub(crate) fn total(&self) -> Duration {
        let clock = self.clock.borrow();
        clock.total + clock.running_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Completes when the server responds.
    pub(crate) async fn regained(&self) {
        let mut clock = self.clock.subscribe();
        if clock.wait_for(|clock| clock.running_since.is_some()).await.is_err() {
            std::future::pending().await
        }
    }
}
