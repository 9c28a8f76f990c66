//! Writes without a response yet. A controller's loops are not cancelled before their writes have been answered.

use flyball_client::CARRIED_OUT_WITHIN;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Counts the pending writes of one controller.
#[derive(Default)]
pub(crate) struct PendingWrites {
    writes: AtomicUsize,
    none_left: Notify,
    /// When a response was last lost.
    lost: Mutex<Option<Instant>>,
}

impl PendingWrites {
    pub(crate) fn begin(&self) {
        self.writes.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn end(&self) {
        if self.writes.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.none_left.notify_waiters();
        }
    }

    /// The response to a write was lost, or nobody waits for it any more.
    pub(crate) fn lost(&self) {
        *self.lost.lock() = Some(Instant::now());
    }

    /// Whether the server may still be about to carry out a write whose response was lost.
    pub(crate) fn may_be_under_way(&self) -> bool {
        self.lost.lock().is_some_and(|at| at.elapsed() < CARRIED_OUT_WITHIN)
    }

    /// Waits until no write is pending.
    pub(crate) async fn none(&self) {
        loop {
            let none_left = self.none_left.notified();
            if self.writes.load(Ordering::Acquire) == 0 {
                return;
            }
            none_left.await;
        }
    }
}
