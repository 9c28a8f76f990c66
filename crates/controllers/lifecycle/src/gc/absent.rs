//! Owners that the server has said do not exist, so that a thousand dependents of one ask once.

use std::sync::Arc;

use flyball_api::{OwnerReference, Uid};
use lru::LruCache;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use tokio::sync::OwnedMutexGuard;

use super::identity::Identity;

/// Upstream remembers 500, and asks again about owners beyond that. The dependents of owners that were deleted together
/// come in no particular order, so all of these must be remembered until the last dependent has been looked at.
const REMEMBERED: usize = 10_000;

/// An owner that is forgotten may cost somebody an object.
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

    /// Remembers that this owner goes and its dependents are to outlive it.
    ///
    /// Upstream frees the dependents that its caches have shown, and collects those that they show afterwards:
    /// it cannot tell them from what has merely lost its owner. This memory can, while the process lives.
    pub fn add_outlived(&mut self, uid: Uid) {
        self.outlived.put(uid, ());
        if self.outlived.len() > OUTLIVED {
            self.outlived.pop_lru();
        }
    }

    /// Whether the dependents of this owner were to outlive it.
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

/// Lets those who ask about the same owner ask one after the other, so that the others can use the first one's answer.
#[derive(Debug, Default)]
pub struct Turns {
    owners: Mutex<FxHashMap<Identity, Arc<tokio::sync::Mutex<()>>>>,
}

/// The right to ask about one owner.
pub struct Turn<'a> {
    turns: &'a Turns,
    owner: Identity,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits until nobody else asks about `owner`.
    pub async fn take(&self, owner: &Identity) -> Turn<'_> {
        let turn = self.owners.lock().entry(owner.clone()).or_default().clone();
        let mut taken = Turn { turns: self, owner: owner.clone(), guard: None };
        taken.guard = Some(turn.lock_owned().await);
        taken
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.owners.lock().is_empty()
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.guard = None;
        let mut owners = self.turns.owners.lock();
        // Nobody waits: those who do hold it, too.
        if owners.get(&self.owner).is_some_and(|turn| Arc::strong_count(turn) == 1) {
            owners.remove(&self.owner);
        }
    }
}
