//! Which versions of slices are our own writes, so that hearing of them is no reason to look again.

use flyball_api::{EndpointSlice, Key, Object, ResourceVersion};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// The last write to each slice. A write that is heard of before it is noted here costs a look, nothing more.
#[derive(Default)]
pub(crate) struct Ledger {
    written: Mutex<FxHashMap<Key, Written>>,
}

#[derive(PartialEq)]
enum Written {
    Version(ResourceVersion),
    Deleted,
}

impl Ledger {
    /// Notes what the server answered to a write.
    pub(crate) fn wrote(&self, slice: &EndpointSlice) {
        let version = slice.metadata.resource_version;
        self.written.lock().insert(slice.key(), Written::Version(version));
    }

    /// Notes a deletion that is about to be asked for; what was asked for may be heard of before the answer.
    pub(crate) fn deleted(&self, slice: &EndpointSlice) {
        self.written.lock().insert(slice.key(), Written::Deleted);
    }

    /// Takes back what was noted: the deletion failed, or there was nothing to delete.
    pub(crate) fn forget(&self, slice: &EndpointSlice) {
        self.written.lock().remove(&slice.key());
    }

    /// Whether this version of a slice is what we wrote.
    pub(crate) fn is_own(&self, slice: &EndpointSlice) -> bool {
        let version = Written::Version(slice.metadata.resource_version);
        self.written.lock().get(&slice.key()) == Some(&version)
    }

    /// Whether we deleted a slice that is now gone; it is forgotten here in any case.
    pub(crate) fn was_deleted(&self, slice: &EndpointSlice) -> bool {
        self.written.lock().remove(&slice.key()) == Some(Written::Deleted)
    }
}
