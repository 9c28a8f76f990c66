//! Writes that have no answer yet: nobody who could hear the answer may go before it is there.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The writes of one controller that are under way.
#[derive(Default)]
pub(crate) struct UnderWay {
    writes: AtomicUsize,
    none_left: Notify,
}

impl UnderWay {
    pub(crate) fn begin(&self) {
        self.writes.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn end(&self) {
        if self.writes.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.none_left.notify_waiters();
        }
    }

    /// Waits until there are none.
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
