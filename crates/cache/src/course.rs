//! What can be said of an informer without knowing its objects: what it watches, what it has counted, how far it has
//! come, and who waits for that.

use flyball_api::{Key, ResourceType};
use tokio::sync::{Notify, watch};
use tracing::warn;

use crate::metrics::Counters;
use crate::milestones::Milestones;
use crate::store::Header;

pub(crate) struct Course {
    pub(crate) resource: ResourceType,
    pub(crate) counters: Counters,
    pub(crate) milestones: Milestones,
    /// Becomes true with the first complete list, and stays so.
    pub(crate) synced: watch::Sender<bool>,
    /// Rung by whoever misses something that the server must have sent.
    pub(crate) doubts: Notify,
}

impl Course {
    pub(crate) fn new(resource: ResourceType) -> Self {
        Self {
            resource,
            counters: Counters::default(),
            milestones: Milestones::default(),
            synced: watch::Sender::new(false),
            doubts: Notify::new(),
        }
    }

    pub(crate) fn has_synced(&self) -> bool {
        *self.synced.borrow()
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
