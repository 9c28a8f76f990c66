//! Informers of different kinds lag each other. A controller that misses a referenced object may only see it late, so it
//! requeues its key once, after [`INFORMER_LAG`], before it reports that the object is missing.
//!
//! Whether an informer may lag is often judged by comparing its version with that of an object of another resource. This is a
//! guess, since resources may be in separate etcds (`--etcd-servers-overrides`), and must decide on nothing but that delay.

use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::FxHashSet;

/// Watches are rarely further apart than this, and users do not notice the delay.
pub const INFORMER_LAG: Duration = Duration::from_millis(100);

const MOST: usize = 10_000;

/// The keys that have missed an object and were requeued for it.
#[derive(Debug)]
pub struct Misses<K>(Mutex<FxHashSet<K>>);

impl<K> Default for Misses<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash> Misses<K> {
    /// Records that `key` misses an object. Returns whether that is new, so that it is to be requeued after [`INFORMER_LAG`].
    pub fn insert(&self, key: &K) -> bool {
        let mut known = self.0.lock();
        if known.len() >= MOST {
            // A key that is requeued a second time does no harm.
            known.clear();
        }
        known.insert(key.clone())
    }

    /// Whether `key` missed an object before, and has not found it since.
    pub fn contains(&self, key: &K) -> bool {
        self.0.lock().contains(key)
    }

    /// Records that `key` misses nothing, or is gone. Returns whether it missed an object before.
    pub fn forget(&self, key: &K) -> bool {
        self.0.lock().remove(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_requeued_once() {
        let misses = Misses::default();
        assert!(misses.insert(&"a") && !misses.insert(&"a") && misses.insert(&"b"));
        assert!(misses.contains(&"a") && !misses.contains(&"c"));
        assert!(misses.forget(&"a") && !misses.forget(&"a"));
        assert!(misses.insert(&"a"));
    }
}
