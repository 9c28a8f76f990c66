//! Writes without a response yet. A controller's loops are not cancelled before their writes have been answered.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Counts the pending writes of one controller.
#[derive(Default)]
pub(crate) struct PendingWrites {
    writes: AtomicUsize,
    none_left: Notify,
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
