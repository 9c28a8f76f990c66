//! The health of an informer.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Whether a list has ever been completed.
    pub synced: bool,
    /// Whether the informer has been stopped; the store keeps its contents.
    pub stopped: bool,
    /// Set while lists or watches fail.
    pub failing: Option<Failing>,
}

/// An outage that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failing {
    /// How long ago it began.
    pub since: Duration,
    pub failures: u64,
    /// The latest failure with its causes.
    pub last_error: Arc<str>,
}

impl Health {
    /// Whether the store is complete and, as far as is known, follows the server.
    pub fn is_healthy(&self) -> bool {
        self.synced && !self.stopped && self.failing.is_none()
    }
}

/// The outage that [`Health`] reports.
#[derive(Default)]
pub(crate) struct Record {
    outage: Mutex<Option<Outage>>,
}

struct Outage {
    began: Instant,
    failures: u64,
    last_error: Arc<str>,
}

impl Record {
    pub(crate) fn failed(&self, error: &str) {
        let mut outage = self.outage.lock();
        let outage = outage.get_or_insert_with(|| Outage {
            began: Instant::now(),
            failures: 0,
            last_error: "".into(),
        });
        outage.failures += 1;
        outage.last_error = error.into();
    }

    /// Ends the outage and returns how long it lasted, if there was one.
    pub(crate) fn recovered(&self) -> Option<Duration> {
        self.outage.lock().take().map(|outage| outage.began.elapsed())
    }

    pub(crate) fn failing(&self) -> Option<Failing> {
        self.outage.lock().as_ref().map(|outage| Failing {
            since: outage.began.elapsed(),
            failures: outage.failures,
            last_error: outage.last_error.clone(),
        })
    }
}
