//! What can be said of an informer without knowing its objects: what it watches, what it has counted, how far it has
//! come, and who waits for that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flyball_api::{Key, ResourceType};
use tokio::sync::{Mutex, Notify, watch};
use tokio::time::Instant;
use tracing::warn;

use crate::era::Era;
use crate::metrics::Counters;
use crate::milestones::Milestones;
use crate::store::Header;

pub(crate) struct Course {
    pub(crate) resource: ResourceType,
    pub(crate) counters: Counters,
    pub(crate) milestones: Milestones,
    /// Becomes true with the first complete list, and stays so.
    pub(crate) synced: watch::Sender<bool>,
    /// Lists begun so far, which is also the number of the latest.
    begun: AtomicU64,
    /// The latest list that was completed.
    pub(crate) listed: watch::Sender<Listed>,
    pub(crate) era: Arc<Era>,
    /// Rung by whoever misses something that the server must have sent.
    pub(crate) doubts: Notify,
    /// Rung by whoever needs to know soon that nothing is missing.
    pub(crate) haste: Notify,
    /// A moment whose state the cache is known to have shown. Held while that is being found out.
    pub(crate) confirmed: Mutex<Option<Instant>>,
}

/// A list, by its number and the era in which it began. It shows all that was written before it began.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Listed {
    pub(crate) number: u64,
    pub(crate) era: u64,
}

impl Course {
    pub(crate) fn new(resource: ResourceType, era: Arc<Era>) -> Self {
        Self {
            resource,
            counters: Counters::default(),
            milestones: Milestones::default(),
            synced: watch::Sender::new(false),
            begun: AtomicU64::new(0),
            listed: watch::Sender::new(Listed::default()),
            era,
            doubts: Notify::new(),
            haste: Notify::new(),
            confirmed: Mutex::new(None),
        }
    }

    pub(crate) fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    pub(crate) fn begin_list(&self) -> Listed {
        Listed { number: self.begun.fetch_add(1, Ordering::AcqRel) + 1, era: self.era.now() }
    }

    /// The number of the first list that begins after this call.
    pub(crate) fn next_list(&self) -> u64 {
        self.begun.load(Ordering::Acquire) + 1
    }

    pub(crate) fn undecodable(&self, key: &Key, header: &Header, error: &serde_json::Error) {
        Counters::add(&self.counters.decode_failures, 1);
        warn!(resource = %self.resource, %key, uid = %header.uid, version = %header.version, %error,
            "an object cannot be decoded; what is known of it is out of date until it can");
    }

    pub(crate) fn undecodable_end(&self, key: &Key, error: &serde_json::Error) {
        Counters::add(&self.counters.decode_failures, 1);
        warn!(resource = %self.resource, %key, %error, "the last state of a deleted object cannot be decoded");
    }

    pub(crate) fn unidentified(&self, error: &dyn std::error::Error) {
        Counters::add(&self.counters.decode_failures, 1);
        let cause = error.source().map(ToString::to_string).unwrap_or_default();
        warn!(resource = %self.resource, %error, cause, "an object was left out: it cannot be identified");
    }
}
