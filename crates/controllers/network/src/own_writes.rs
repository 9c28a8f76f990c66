//! Which versions of slices this controller has written, so that the watch events of its own writes cause no sync.

use flyball_api::{EndpointSlice, Key, Object, ResourceVersion};
use flyball_client::Verb;
use flyball_runtime::{Outcome, Plan};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::slices::SliceWrite;

/// The last write to each slice. A write that the watch shows before it is recorded here costs a sync without writes.
#[derive(Default)]
pub(crate) struct OwnWrites {
    last: Mutex<FxHashMap<Key, Last>>,
}

#[derive(PartialEq)]
enum Last {
    Version(ResourceVersion),
    Deleted,
}

impl OwnWrites {
    /// Records the deletions of a plan before it is executed, as the watch may show them before the answers arrive. Returns
    /// the slices, for [`record`](Self::record).
    pub(crate) fn expect_deletions(&self, plan: &Plan<SliceWrite>) -> Vec<Key> {
        let writes = plan.writes();
        let deletions = writes.iter().filter(|write| write.tag.verb == Verb::Delete);
        let expected: Vec<Key> = deletions.map(|write| write.key.clone()).collect();
        self.last.lock().extend(expected.iter().map(|key| (key.clone(), Last::Deleted)));
        expected
    }

    /// Records the versions that were written, and drops expected deletions that were not made.
    pub(crate) fn record(&self, outcome: &Outcome<SliceWrite>, mut expected: Vec<Key>) {
        let mut last = self.last.lock();
        for done in outcome.written() {
            if done.tag.verb == Verb::Delete {
                expected.retain(|key| *key != done.tag.key);
            } else if let Some(meta) = done.answer.written() {
                last.insert(meta.key(), Last::Version(meta.resource_version));
            }
        }
        for key in &expected {
            last.remove(key);
        }
    }

    /// Whether this version of a slice is our own write.
    pub(crate) fn contains(&self, slice: &EndpointSlice) -> bool {
        let version = Last::Version(slice.metadata.resource_version);
        self.last.lock().get(&slice.key()) == Some(&version)
    }

    /// Whether we deleted a slice that is now gone. Forgets the slice in any case.
    pub(crate) fn take_deleted(&self, slice: &EndpointSlice) -> bool {
        self.last.lock().remove(&slice.key()) == Some(Last::Deleted)
    }
}
