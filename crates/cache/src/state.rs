//! The state of an informer that does not depend on the type of its objects: resource, counters, progress, and requests to
//! the reflector.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flyball_api::{Key, ResourceType, ResourceVersion};
use flyball_client::without_quotes;
use flyball_latest as latest;
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;
use tracing::warn;

use crate::decode::Unidentified;
use crate::era::{Doubt, Era};
use crate::metrics::Counters;
use crate::store::Header;
use crate::version_waits::VersionWaits;
use crate::witness::Witness;

pub(crate) struct InformerState {
    pub(crate) resource: ResourceType,
    pub(crate) counters: Counters,
    pub(crate) version_waits: VersionWaits,
    /// Becomes true with the first complete list, and stays true.
    pub(crate) synced: latest::Sender<bool>,
    /// Lists begun so far, which is also the number of the latest.
    begun: AtomicU64,
    /// The era in which the latest began.
    begun_in: AtomicU64,
    /// The latest list that was completed.
    pub(crate) listed: latest::Sender<Listed>,
    pub(crate) era: Arc<Era>,
    pub(crate) doubt: Doubt,
    /// The highest version that the server has returned for a write, and the era of that. Less in the same era shows a restore.
    written: parking_lot::Mutex<(u64, ResourceVersion)>,
    /// How often this resource alone has returned to an earlier state.
    returns: AtomicU64,
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
    /// How often the resource alone had returned to an earlier state by then.
    returns: u64,
}

impl Listed {
    /// Whether the server has returned to an earlier state since `earlier`.
    pub(crate) fn is_after_restore_since(&self, earlier: &Self) -> bool {
        self.era > earlier.era || self.returns > earlier.returns
    }
}

impl InformerState {
    pub(crate) fn new(resource: ResourceType, era: Arc<Era>) -> Self {
        Self {
            resource,
            counters: Counters::default(),
            version_waits: VersionWaits::default(),
            synced: latest::Sender::new(false),
            begun: AtomicU64::new(0),
            begun_in: AtomicU64::new(0),
            listed: latest::Sender::new(Listed::default()),
            doubt: Doubt::new(era.clone()),
            written: parking_lot::Mutex::new((era.now(), ResourceVersion(0))),
            era,
            returns: AtomicU64::new(0),
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
        let (number, era) = (self.begun.fetch_add(1, Ordering::AcqRel) + 1, self.era.now());
        self.begun_in.store(era, Ordering::Release);
        Listed { number, era, returns: self.returns.load(Ordering::Acquire) }
    }

    /// The server has returned to an earlier state since `era`. Returns whether that is news for all resources: the others are
    /// listed again only if this resource is of the API server itself, or if there is none that is.
    pub(crate) fn went_back(&self, era: u64) -> bool {
        if Witness::is_built_in(&self.resource) || self.era.witness().is_none() {
            return self.era.end(era);
        }
        if !self.has_gone_back_alone() {
            warn!(resource = %self.resource, "the resource has gone back to an earlier version; listing it again");
            self.returns.fetch_add(1, Ordering::AcqRel);
            // Versions of writes from before are no evidence any more.
            *self.written.lock() = (self.era.now(), ResourceVersion(0));
            self.relist_requests.notify_one();
        }
        false
    }

    /// Whether this resource alone has returned to an earlier state since the latest list.
    pub(crate) fn has_gone_back_alone(&self) -> bool {
        self.returns.load(Ordering::Acquire) > self.listed.borrow().returns
    }

    /// Whether the first list is under way, and began before `era`.
    pub(crate) fn is_first_list_from_before(&self, era: u64) -> bool {
        !self.has_synced()
            && self.begun.load(Ordering::Acquire) > 0
            && self.begun_in.load(Ordering::Acquire) < era
    }

    /// The number of the first list that begins after this call.
    pub(crate) fn next_list(&self) -> u64 {
        self.begun.load(Ordering::Acquire) + 1
    }

    /// Records that an object cannot be read as protobuf.
    pub(crate) fn needs_json(&self, error: serde_json::Error) {
        let error = self.tellable(error);
        *self.unreadable.lock() = Some(error);
    }

    /// An error about the contents of an object, for the log.
    fn tellable(&self, error: serde_json::Error) -> serde_json::Error {
        if self.resource.holds_secrets() { without_quotes(&error) } else { error }
    }

    /// Why JSON is needed, once.
    pub(crate) fn take_unreadable(&self) -> Option<serde_json::Error> {
        self.unreadable.lock().take()
    }

    pub(crate) fn undecodable(&self, key: &Key, header: &Header, error: serde_json::Error) {
        let error = self.tellable(error);
        Counters::add(&self.counters.decode_failures, 1);
        warn!(resource = %self.resource, %key, uid = %header.uid, version = %header.version, %error,
            "an object cannot be decoded; its cached state is outdated until it can");
    }

    pub(crate) fn undecodable_end(&self, key: &Key, error: serde_json::Error) {
        let error = self.tellable(error);
        Counters::add(&self.counters.decode_failures, 1);
        warn!(resource = %self.resource, %key, %error, "the last state of a deleted object cannot be decoded");
    }

    pub(crate) fn unidentified(&self, error: Unidentified) {
        Counters::add(&self.counters.decode_failures, 1);
        let cause = match &error {
            Unidentified::Malformed(cause) if self.resource.holds_secrets() => {
                without_quotes(cause).to_string()
            }
            Unidentified::Malformed(cause) => cause.to_string(),
            Unidentified::Nameless => String::new(),
        };
        warn!(resource = %self.resource, %error, cause, "an object was skipped: it cannot be identified");
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn errors_about_secrets_quote_nothing() {
        const ACCOUNTS: ResourceType = ResourceType::new("", "v1", "serviceaccounts", "ServiceAccount", true);
        const SECRETS: ResourceType = ResourceType::new("", "v1", "secrets", "Secret", true);
        const PODS: ResourceType = ResourceType::new("", "v1", "pods", "Pod", true);
        for (resource, is_quoted) in [(SECRETS, false), (ACCOUNTS, false), (PODS, true)] {
            let state = InformerState::new(resource, Arc::default());
            let error = serde_json::from_str::<u32>("\"hunter2\"").unwrap_err();
            assert!(error.to_string().contains("hunter2") && error.source().is_none());
            let told = state.tellable(error).to_string();
            assert_eq!(told.contains("hunter2"), is_quoted, "{told}");
            assert!(told.contains("line 1 column 9"), "{told}");
        }
    }
}
