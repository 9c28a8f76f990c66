//! The newest known version of objects: the cache's, or that of a write which the cache does not show yet. A sync of a
//! claim writes volumes and the other way round, so the barrier of one's own key is not enough here.

use std::sync::Arc;

use flyball_api::{Key, Resource, ResourceVersion};
use flyball_cache::{Informer, Progress as _, Store};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// The newest known objects of a kind.
pub(super) struct Latest<T> {
    pub(super) informer: Arc<Informer<T>>,
    written: Mutex<FxHashMap<Key, Written<T>>>,
}

/// A written object, and when it was written: after a restore of etcd it may not exist.
struct Written<T> {
    era: u64,
    /// The first list that began after the write.
    list: u64,
    object: Arc<T>,
}

/// The version that a cache has reached.
struct Reached {
    version: ResourceVersion,
    era: u64,
}

impl<T: Resource> Written<T> {
    /// Whether the cache may not show it yet. A cache that has reached its version, or was listed since, shows it unless a restore
    /// has undone it.
    fn is_awaited(&self, reached: &Reached, has_listed: bool) -> bool {
        self.era == reached.era && self.object.meta().resource_version > reached.version && !has_listed
    }

    fn supersedes(&self, cached: &T) -> bool {
        let is_newer = self.object.meta().resource_version > cached.meta().resource_version;
        is_newer && self.object.uid() == cached.uid()
    }
}

impl<T: Resource> Latest<T> {
    pub(super) fn new(informer: Arc<Informer<T>>) -> Self {
        Self { informer, written: Mutex::default() }
    }

    /// The cache, without what need not be awaited any longer. It is to be read after this call.
    pub(super) fn store(&self) -> &Store<T> {
        let reached = Reached { version: self.informer.version_reached(), era: self.informer.era() };
        let is_awaited =
            |written: &Written<T>| written.is_awaited(&reached, self.informer.has_listed(written.list));
        self.written.lock().retain(|_, written| is_awaited(written));
        self.informer.store()
    }

    /// The object of this name.
    pub(super) fn get(&self, key: &Key) -> Option<Arc<T>> {
        let cached = self.store().get(key);
        if cached.is_none() {
            // Only objects that the cache has shown are written, so it was deleted.
            self.written.lock().remove(key);
        }
        cached.map(|cached| self.refreshed(cached))
    }

    /// The newest version of an object that [`store`](Self::store) has.
    pub(super) fn refreshed(&self, cached: Arc<T>) -> Arc<T> {
        let written = self.written.lock();
        if written.is_empty() {
            return cached;
        }
        match written.get(&cached.key()) {
            Some(newer) if newer.supersedes(&cached) => newer.object.clone(),
            _ => cached,
        }
    }

    /// Remembers what was written.
    pub(super) fn record(&self, object: T) {
        let (era, list) = (self.informer.era(), self.informer.next_list());
        let written = Written { era, list, object: Arc::new(object) };
        self.written.lock().insert(written.object.key(), written);
    }
}

#[cfg(test)]
mod tests {
    use flyball_api::{ObjectMeta, PersistentVolume, Uid};

    use super::*;

    fn volume(uid: &str, version: u64) -> PersistentVolume {
        let (uid, resource_version) = (Uid::from(uid), ResourceVersion(version));
        let metadata = ObjectMeta { uid, resource_version, ..ObjectMeta::default() };
        PersistentVolume { metadata, ..PersistentVolume::default() }
    }

    #[test]
    fn an_answer_counts_until_the_cache_shows_it_or_etcd_is_restored() {
        let answer = Written { era: 3, list: 2, object: Arc::new(volume("a", 50)) };
        #[rustfmt::skip]
        let table = [
            // case                                     reached  era  listed since  counts
            ("the cache is behind",                     45,      3,   false,        true),
            ("the cache shows it",                      50,      3,   false,        false),
            ("the cache shows it, or it was undone",    60,      3,   false,        false),
            ("it was undone",                           45,      4,   false,        false),
            ("it was undone, and nothing else written", 45,      3,   true,         false),
        ];
        for (case, version, era, has_listed, counts) in table {
            let reached = Reached { version: ResourceVersion(version), era };
            assert_eq!(answer.is_awaited(&reached, has_listed), counts, "{case}");
        }
        #[rustfmt::skip]
        let table = [
            // case                          cached           counts
            ("an older state",               volume("a", 40), true),
            ("the same state",               volume("a", 50), false),
            ("a newer state",                volume("a", 60), false),
            ("another volume of that name",  volume("b", 40), false),
        ];
        for (case, cached, counts) in table {
            assert_eq!(answer.supersedes(&cached), counts, "{case}");
        }
    }
}
