//! Answers remembered for a while: bounded in number and age.

use std::{collections::HashMap, hash::Hash, time::Duration};

use parking_lot::Mutex;
use rustc_hash::FxBuildHasher;
use tokio::time::Instant;

/// Beyond this, what has expired is dropped, and if that is not enough, everything: asking again is always right.
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
