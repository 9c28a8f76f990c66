//! Owners that the server has said do not exist, so that a thousand dependents of one ask once.

use std::num::NonZeroUsize;

use flyball_api::OwnerReference;
use lru::LruCache;
use smol_str::SmolStr;

use super::identity::Identity;

/// As upstream.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(500).expect("not zero");

/// The latest absent owners. A uid never comes back, so what is in here stays true.
#[derive(Debug)]
pub struct Absent(LruCache<Identity, ()>);

impl Default for Absent {
    fn default() -> Self {
        Self(LruCache::new(REMEMBERED))
    }
}

impl Absent {
    /// Remembers that the server does not know this object.
    pub fn add(&mut self, identity: Identity) {
        self.0.put(identity, ());
    }

    /// Whether the owner that an object in `namespace` refers to is known not to exist, in that namespace or as
    /// a cluster-scoped object.
    pub fn has(&mut self, reference: &OwnerReference, namespace: &SmolStr) -> bool {
        let cluster_scoped = Identity::claimed(reference, &SmolStr::default());
        if self.0.get(&cluster_scoped).is_some() {
            return true;
        }
        let namespaced = Identity { namespace: namespace.clone(), ..cluster_scoped };
        self.0.get(&namespaced).is_some()
    }
}
