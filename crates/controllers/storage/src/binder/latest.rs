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
        let is_newer = answer.object.meta().resource_version > cached.meta().resource_version;
        if is_newer && answer.object.uid() == cached.uid() && answer.era == self.informer.era() {
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
