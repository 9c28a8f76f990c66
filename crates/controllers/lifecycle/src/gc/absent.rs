//! Owners that do not exist, so that a thousand dependents of one owner cost one read.

use std::sync::Arc;

use flyball_api::{OwnerReference, Uid};
use lru::LruCache;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use tokio::sync::OwnedMutexGuard;

use super::identity::Identity;

/// Upstream remembers 500, and reads owners beyond that again. The dependents of owners that were deleted together
/// come in no particular order, so all of these must be remembered until the last dependent was examined.
const REMEMBERED: usize = 10_000;

/// If an owner is forgotten, a dependent that should be orphaned may be deleted.
const OUTLIVED: usize = 10_000;

/// The latest absent owners. A uid comes back only if etcd is restored, so what is in here holds for one era.
#[derive(Debug)]
pub struct Absent {
    era: u64,
    absent: LruCache<Identity, ()>,
    outlived: LruCache<Uid, ()>,
}

impl Default for Absent {
    fn default() -> Self {
        // Bounded when something is added: a bounded cache takes its memory at once.
        Self { era: 0, absent: LruCache::unbounded(), outlived: LruCache::unbounded() }
    }
}

impl Absent {
    /// Forgets the absent owners of earlier eras: a restore may have brought them back.
    pub fn enter(&mut self, era: u64) {
        if std::mem::replace(&mut self.era, era) != era {
            self.absent.clear();
        }
    }

    /// Remembers that the server does not know this object.
    pub fn add(&mut self, identity: Identity) {
        self.absent.put(identity, ());
        if self.absent.len() > REMEMBERED {
            self.absent.pop_lru();
        }
    }

    /// Remembers that the dependents of this owner are orphaned.
    ///
    /// Upstream orphans the dependents that its caches have shown, and deletes those that they show afterwards:
    /// it cannot distinguish them from objects that have lost their owner. With this memory that is possible, until
    /// the process ends.
    pub fn add_outlived(&mut self, uid: Uid) {
        self.outlived.put(uid, ());
        if self.outlived.len() > OUTLIVED {
            self.outlived.pop_lru();
        }
    }

    /// Whether the dependents of this owner were to be orphaned.
    pub fn is_outlived(&mut self, uid: &Uid) -> bool {
        self.outlived.get(uid).is_some()
    }

    /// Whether the owner that an object in `namespace` refers to is known not to exist, in that namespace or as
    /// a cluster-scoped object.
    pub fn has(&mut self, reference: &OwnerReference, namespace: &SmolStr) -> bool {
        let cluster_scoped = Identity::claimed(reference, &SmolStr::default());
        if self.absent.get(&cluster_scoped).is_some() {
            return true;
        }
        let namespaced = Identity { namespace: namespace.clone(), ..cluster_scoped };
        self.absent.get(&namespaced).is_some()
    }
}

/// Serializes reads of the same owner, so that other workers can use the answer of the first.
#[derive(Debug, Default)]
pub struct OwnerReads {
    owners: Mutex<FxHashMap<Identity, Arc<tokio::sync::Mutex<()>>>>,
}

/// The read of one worker.
pub struct OwnerRead<'a> {
    reads: &'a OwnerReads,
    owner: Identity,
    guard: Option<OwnedMutexGuard<()>>,
}

impl OwnerReads {
    /// Waits until no other worker reads `owner`.
    pub async fn begin(&self, owner: &Identity) -> OwnerRead<'_> {
        let lock = self.owners.lock().entry(owner.clone()).or_default().clone();
        let mut read = OwnerRead { reads: self, owner: owner.clone(), guard: None };
        read.guard = Some(lock.lock_owned().await);
        read
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.owners.lock().is_empty()
    }
}

impl Drop for OwnerRead<'_> {
    fn drop(&mut self) {
        self.guard = None;
        let mut owners = self.reads.owners.lock();
        // Workers that wait hold a reference, too.
        if owners.get(&self.owner).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            owners.remove(&self.owner);
        }
    }
}
