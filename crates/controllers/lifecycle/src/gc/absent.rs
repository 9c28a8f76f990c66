//! Owners that the server has said do not exist, so that a thousand dependents of one ask once.

use std::num::NonZeroUsize;

use flyball_api::{OwnerReference, Uid};
use lru::LruCache;
use smol_str::SmolStr;

use super::identity::Identity;

/// As upstream.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(500).expect("not zero");

/// A uid is small, and who is forgotten may cost somebody an object.
const OUTLIVED: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");

/// The latest absent owners. A uid never comes back, so what is in here stays true.
#[derive(Debug)]
pub struct Absent {
    absent: LruCache<Identity, ()>,
    outlived: LruCache<Uid, ()>,
}

impl Default for Absent {
    fn default() -> Self {
        Self { absent: LruCache::new(REMEMBERED), outlived: LruCache::new(OUTLIVED) }
    }
}

impl Absent {
    /// Remembers that the server does not know this object.
    pub fn add(&mut self, identity: Identity) {
        self.absent.put(identity, ());
    }

    /// Remembers that this owner goes and its dependents are to outlive it.
    ///
    /// Upstream frees the dependents that its caches have shown, and collects those that they show afterwards:
    /// it cannot tell them from what has merely lost its owner. This memory can, while the process lives.
    pub fn add_outlived(&mut self, uid: Uid) {
        self.outlived.put(uid, ());
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
