//! The state of an informer that does not depend on the type of its objects: resource, counters, progress, and requests to
//! the reflector.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flyball_api::{Key, ResourceType, ResourceVersion};
use tokio::sync::{Mutex, Notify, watch};
use tokio::time::Instant;
use tracing::warn;

use crate::era::{Doubt, Era};
use crate::metrics::Counters;
use crate::store::Header;
use crate::version_waits::VersionWaits;

pub(crate) struct InformerState {
    pub(crate) resource: ResourceType,
    pub(crate) counters: Counters,
    pub(crate) version_waits: VersionWaits,
    /// Becomes true with the first complete list, and stays true.
    pub(crate) synced: watch::Sender<bool>,
    /// Lists begun so far, which is also the number of the latest.
    begun: AtomicU64,
    /// The latest list that was completed.
    pub(crate) listed: watch::Sender<Listed>,
    pub(crate) era: Arc<Era>,
    pub(crate) doubt: Doubt,
    /// The highest version that the server has returned for a write, and the era of that. Less in the same era shows a restore.
    written: parking_lot::Mutex<(u64, ResourceVersion)>,
    /// Notified to force a relist.
    pub(crate) relist_requests: Notify,
    /// Notified to get a bookmark soon.
    pub(crate) bookmark_requests: Notify,
    /// Why an object could not be read as protobuf, until the reflector has requested JSON.
    unreadable: parking_lot::Mutex<Option<serde_json::Error>>,
    /// The cache is known to have shown the server's state at this time. Locked while that is being confirmed.
    pub(crate) confirmed: Mutex<Option<Instant>>,
}

/// A list, by its number and the era in which it began. It shows everything that was written before it began.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Listed {
    pub(crate) number: u64,
    pub(crate) era: u64,
}

impl InformerState {
    pub(crate) fn new(resource: ResourceType, era: Arc<Era>) -> Self {
        Self {
            resource,
            counters: Counters::default(),
            version_waits: VersionWaits::default(),
            synced: watch::Sender::new(false),
            begun: AtomicU64::new(0),
            listed: watch::Sender::new(Listed::default()),
            doubt: Doubt::new(era.clone()),
            written: parking_lot::Mutex::new((era.now(), ResourceVersion(0))),
            era,
            relist_requests: Notify::new(),
            bookmark_requests: Notify::new(),
            unreadable: parking_lot::Mutex::new(None),
            confirmed: Mutex::new(None),
        }
    }

    pub(crate) fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Records that the server has returned this version for a write.
    pub(crate) fn wrote(&self, version: ResourceVersion) {
        let (mut written, era) = (self.written.lock(), self.era.now());
        let before = if written.0 == era { written.1 } else { ResourceVersion(0) };
        *written = (era, before.max(version));
    }

    /// The highest version that the server has returned for a write since it was restored last.
    pub(crate) fn written(&self) -> ResourceVersion {
        let written = self.written.lock();
        if written.0 == self.era.now() { written.1 } else { ResourceVersion(0) }
    }

    pub(crate) fn begin_list(&self) -> Listed {
        Listed { number: self.begun.fetch_add(1, Ordering::AcqRel) + 1, era: self.era.now() }
    }

    /// The number of the first list that begins after this call.
    pub(crate) fn next_list(&self) -> u64 {
        self.begun.load(Ordering::Acquire) + 1
    }

    /// Records that an object cannot be read as protobuf.
    pub(crate) fn needs_json(&self, error: serde_json::Error) {
        *self.unreadable.lock() = Some(error);
    }

    /// Why JSON is needed, once.
    pub(crate) fn take_unreadable(&self) -> Option<serde_json::Error> {
        self.unreadable.lock().take()
    }

    pub(crate) fn undecodable(&self, key: &Key, header: &Header, error: &serde_json::Error) {
        Counters::add(&self.counters.decode_failures, 1);
        warn!(resource = %self.resource, %key, uid = %header.uid, version = %header.version, %error,
            "an object cannot be decoded; its cached state is outdated until it can");
    }

    pub(crate) fn undecodable_end(&self, key: &Key, error: &serde_json::Error) {
        Counters::add(&self.counters.decode_failures, 1);
        warn!(resource = %self.resource, %key, %error, "the last state of a deleted object cannot be decoded");
    }

    pub(crate) fn unidentified(&self, error: &dyn std::error::Error) {
        Counters::add(&self.counters.decode_failures, 1);
        let cause = error.source().map(ToString::to_string).unwrap_or_default();
        warn!(resource = %self.resource, %error, cause, "an object was skipped: it cannot be identified");
    }
}
