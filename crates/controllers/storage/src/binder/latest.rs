//! The newest known version of objects: the cache's, or the server's answer to a write that the cache has yet to see.
//! Claims and volumes write each other, so that waiting for the cache of one's own key is not enough here.

use std::sync::Arc;

use flyball_api::{Key, Resource};
use flyball_cache::{Informer, Progress as _};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// The newest known objects of a kind.
pub(super) struct Latest<T> {
    pub(super) informer: Arc<Informer<T>>,
    answers: Mutex<FxHashMap<Key, Answer<T>>>,
}

/// An answer, and in which era of the server it came: of one before a restore nobody knows whether it still holds.
struct Answer<T> {
    era: u64,
    object: Arc<T>,
}

impl<T: Resource> Answer<T> {
    /// Whether it is newer than what the cache has in this era.
    fn supersedes(&self, cached: &T, era: u64) -> bool {
        let is_newer = self.object.meta().resource_version > cached.meta().resource_version;
        is_newer && self.object.uid() == cached.uid() && self.era == era
    }
}

impl<T: Resource> Latest<T> {
    pub(super) fn new(informer: Arc<Informer<T>>) -> Self {
        Self { informer, answers: Mutex::default() }
    }

    /// The object of this name.
    pub(super) fn get(&self, key: &Key) -> Option<Arc<T>> {
        let cached = self.informer.store().get(key);
        if cached.is_none() {
            // Only objects that were there are written, so it is gone.
            self.answers.lock().remove(key);
        }
        cached.map(|cached| self.refreshed(cached))
    }

    /// The newest version of an object that the cache has.
    pub(super) fn refreshed(&self, cached: Arc<T>) -> Arc<T> {
        let mut answers = self.answers.lock();
        if answers.is_empty() {
            return cached;
        }
        let key = cached.key();
        let Some(answer) = answers.get(&key) else { return cached };
        if answer.supersedes(&cached, self.informer.era()) {
            return answer.object.clone();
        }
        answers.remove(&key);
        cached
    }

    /// Remembers what the server answered.
    pub(super) fn note(&self, answer: T) -> Arc<T> {
        let object = Arc::new(answer);
        let answer = Answer { era: self.informer.era(), object: object.clone() };
        self.answers.lock().insert(object.key(), answer);
        object
    }
}

#[cfg(test)]
mod tests {
    use flyball_api::{ObjectMeta, PersistentVolume, ResourceVersion, Uid};

    use super::*;

    #[test]
    fn an_answer_counts_until_the_cache_shows_it_or_etcd_is_restored() {
        let volume = |uid: &str, version| {
            let (uid, resource_version) = (Uid::from(uid), ResourceVersion(version));
            let metadata = ObjectMeta { uid, resource_version, ..ObjectMeta::default() };
            PersistentVolume { metadata, ..PersistentVolume::default() }
        };
        let answer = Answer { era: 3, object: Arc::new(volume("a", 50)) };
        #[rustfmt::skip]
        let table = [
            // case                               cached            era  counts
            ("the cache is behind",               volume("a", 40),  3,   true),
            ("the cache shows it",                volume("a", 50),  3,   false),
            ("the cache is ahead",                volume("a", 60),  3,   false),
            ("another volume of that name",       volume("b", 40),  3,   false),
            ("the write was lost in a restore",   volume("a", 40),  4,   false),
        ];
        for (case, cached, era, counts) in table {
            assert_eq!(answer.supersedes(&cached, era), counts, "{case}");
        }
    }
}
