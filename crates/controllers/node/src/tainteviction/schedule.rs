//! When pods are to be evicted. Holds only pods that wait for their time or whose deletion is under way.

use flyball_api::{Key, Uid};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::time::Instant;

/// An eviction that was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// The pod; another one of its name is left alone.
    pub uid: Uid,
    pub due: Instant,
    /// Whether there was an event that the pod is being deleted.
    pub is_announced: bool,
}

#[derive(Debug, Default)]
pub(super) struct Schedule {
    evictions: Mutex<FxHashMap<Key, Eviction>>,
}

impl Schedule {
    pub(super) fn has(&self, pod: &Key) -> bool {
        self.evictions.lock().contains_key(pod)
    }

    pub(super) fn get(&self, pod: &Key) -> Option<Eviction> {
        self.evictions.lock().get(pod).cloned()
    }

    pub(super) fn set(&self, pod: &Key, eviction: Option<Eviction>) {
        let mut evictions = self.evictions.lock();
        match eviction {
            Some(eviction) => evictions.insert(pod.clone(), eviction),
            None => evictions.remove(pod),
        };
    }
}
