//! The newest known version of objects: the cache's, or that of a write which the cache does not show yet. A sync of a
//! claim writes volumes and the other way round, so the barrier of one's own key is not enough here.

use std::sync::Arc;

use flyball_api::{Key, Resource};
use flyball_cache::{Informer, Progress as _};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// The newest known objects of a kind.
pub(super) struct Latest<T> {
    pub(super) informer: Arc<Informer<T>>,
    written: Mutex<FxHashMap<Key, Written<T>>>,
}

/// A written object, and the era in which it was written: after a restore of etcd it may not exist.
struct Written<T> {
    era: u64,
    object: Arc<T>,
}

impl<T: Resource> Latest<T> {
    pub(super) fn new(informer: Arc<Informer<T>>) -> Self {
        Self { informer, written: Mutex::default() }
    }

    /// The object of this name.
    pub(super) fn get(&self, key: &Key) -> Option<Arc<T>> {
        let cached = self.informer.store().get(key);
        if cached.is_none() {
            // Only objects that the cache has shown are written, so it was deleted.
            self.written.lock().remove(key);
        }
        cached.map(|cached| self.refreshed(cached))
    }

    /// The newest version of an object that the cache has.
    pub(super) fn refreshed(&self, cached: Arc<T>) -> Arc<T> {
        let mut written = self.written.lock();
        if written.is_empty() {
            return cached;
        }
        let key = cached.key();
        let Some(newer) = written.get(&key) else { return cached };
        let is_newer = newer.object.meta().resource_version > cached.meta().resource_version;
        if is_newer && newer.object.uid() == cached.uid() && newer.era == self.informer.era() {
            return newer.object.clone();
        }
        written.remove(&key);
        cached
    }

    /// Remembers what was written.
    pub(super) fn note(&self, object: T) {
        let written = Written { era: self.informer.era(), object: Arc::new(object) };
        self.written.lock().insert(written.object.key(), written);
    }
}
