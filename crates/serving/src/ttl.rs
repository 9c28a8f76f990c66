//! A cache with a bounded number and age of entries.

use std::{collections::HashMap, hash::Hash, time::Duration};

use parking_lot::Mutex;
use rustc_hash::FxBuildHasher;
use tokio::time::Instant;

/// Beyond this, expired entries are removed; if that is not enough, all entries.
const CAPACITY: usize = 4096;

#[derive(Debug)]
pub(super) struct TtlCache<K, V> {
    entries: Mutex<HashMap<K, (V, Instant), FxBuildHasher>>,
}

impl<K: Hash + Eq, V: Clone> TtlCache<K, V> {
    pub(super) fn new() -> Self {
        Self { entries: Mutex::default() }
    }

    pub(super) fn get(&self, key: &K) -> Option<V> {
        let entries = self.entries.lock();
        entries.get(key).filter(|(_, until)| *until > Instant::now()).map(|(value, _)| value.clone())
    }

    pub(super) fn put(&self, key: K, value: V, ttl: Duration) {
        if ttl.is_zero() {
            return;
        }
        let now = Instant::now();
        let mut entries = self.entries.lock();
        if entries.len() >= CAPACITY {
            entries.retain(|_, (_, until)| *until > now);
        }
        if entries.len() >= CAPACITY {
            entries.clear();
        }
        if let Some(until) = now.checked_add(ttl) {
            entries.insert(key, (value, until));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn entries_expire_and_their_number_is_bounded() {
        let (cache, ttl) = (TtlCache::new(), Duration::from_secs(10));
        cache.put(0, "none", Duration::ZERO);
        assert_eq!((cache.get(&0), cache.entries.lock().len()), (None, 0));
        cache.put(0, "some", ttl);
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(cache.get(&0), Some("some"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(cache.get(&0), None);
        for key in 0..3 * CAPACITY {
            cache.put(key, "flood", ttl);
            assert!(cache.entries.lock().len() <= CAPACITY);
        }
    }
}
