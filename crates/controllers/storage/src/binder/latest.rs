//! The newest known version of objects: the cache's, or that of a write which the cache does not show yet. A sync of a
//! claim writes volumes and the other way round, so the barrier of one's own key is not enough here.

use std::sync::Arc;

use flyball_api::{Key, Resource, ResourceVersion};
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

impl<T: Resource> Written<T> {
    /// Whether it is newer than what the cache had in this era when it had `reached` a version. A cache that has reached the
    /// version of the write, and does not show it, shows that a restore has undone it.
    fn supersedes(&self, cached: &T, reached: ResourceVersion, era: u64) -> bool {
        let version = self.object.meta().resource_version;
        let is_newer = version > cached.meta().resource_version && version > reached;
        is_newer && self.object.uid() == cached.uid() && self.era == era
    }
}

impl<T: Resource> Latest<T> {
    pub(super) fn new(informer: Arc<Informer<T>>) -> Self {
        Self { informer, written: Mutex::default() }
    }

    /// The object of this name.
    pub(super) fn get(&self, key: &Key) -> Option<Arc<T>> {
        let reached = self.informer.version_reached();
        let cached = self.informer.store().get(key);
        if cached.is_none() {
            // Only objects that the cache has shown are written, so it was deleted.
            self.written.lock().remove(key);
        }
        cached.map(|cached| self.refreshed(cached, reached))
    }

    /// The newest version of an object that the cache has. `reached` was read before the object.
    pub(super) fn refreshed(&self, cached: Arc<T>, reached: ResourceVersion) -> Arc<T> {
        let mut written = self.written.lock();
        if written.is_empty() {
            return cached;
        }
        let key = cached.key();
        let Some(newer) = written.get(&key) else { return cached };
        if newer.supersedes(&cached, reached, self.informer.era()) {
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

#[cfg(test)]
mod tests {
    use flyball_api::{ObjectMeta, PersistentVolume, Uid};

    use super::*;

    #[test]
    fn an_answer_counts_until_the_cache_shows_it_or_etcd_is_restored() {
        let volume = |uid: &str, version| {
            let (uid, resource_version) = (Uid::from(uid), ResourceVersion(version));
            let metadata = ObjectMeta { uid, resource_version, ..ObjectMeta::default() };
            PersistentVolume { metadata, ..PersistentVolume::default() }
        };
        let answer = Written { era: 3, object: Arc::new(volume("a", 50)) };
        #[rustfmt::skip]
        let table = [
            // case                               cached            reached  era  counts
            ("the cache is behind",               volume("a", 40),  45,      3,   true),
            ("the cache shows it",                volume("a", 50),  50,      3,   false),
            ("the cache is ahead",                volume("a", 60),  60,      3,   false),
            ("another volume of that name",       volume("b", 40),  45,      3,   false),
            ("the write was lost in a restore",   volume("a", 40),  45,      4,   false),
            ("lost in a restore unnoticed",       volume("a", 40),  50,      3,   false),
        ];
        for (case, cached, reached, era, counts) in table {
            assert_eq!(answer.supersedes(&cached, ResourceVersion(reached), era), counts, "{case}");
        }
    }
}
