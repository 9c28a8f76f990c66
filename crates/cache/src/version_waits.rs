//! Waiting for a version: each waiter is woken when its own version has been reached, and not earlier.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::ResourceVersion;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// The versions that are waited for, each with a semaphore without permits; closing it wakes all its waiters.
#[derive(Default)]
pub(crate) struct VersionWaits {
    awaited: Mutex<BTreeMap<ResourceVersion, Arc<Semaphore>>>,
}

impl VersionWaits {
    /// Waits until `passed` is called with `version` or a later one, or until `wake_all`. `reached` is called after the wait is
    /// registered, so that no version in between is missed.
    pub(crate) async fn wait(&self, version: ResourceVersion, reached: impl Fn() -> ResourceVersion) {
        let closed =
            self.awaited.lock().entry(version).or_insert_with(|| Arc::new(Semaphore::new(0))).clone();
        let waiting = Waiting { waits: self, version, closed };
        if reached() < version {
            // Fails when the semaphore is closed.
            let _closed = waiting.closed.acquire().await;
        }
    }

    pub(crate) fn passed(&self, version: ResourceVersion) {
        let mut awaited = self.awaited.lock();
        while let Some(first) = awaited.first_entry().filter(|first| *first.key() <= version) {
            first.remove().close();
        }
    }

    /// Ends all waits after a restore of etcd: the server may never reach these versions.
    pub(crate) fn wake_all(&self) {
        for (_, waiters) in std::mem::take(&mut *self.awaited.lock()) {
            waiters.close();
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.awaited.lock().len()
    }
}

/// Removes the entry when its last waiter is dropped.
struct Waiting<'a> {
    waits: &'a VersionWaits,
    version: ResourceVersion,
    closed: Arc<Semaphore>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut awaited = self.waits.awaited.lock();
        let ours = awaited.get(&self.version).is_some_and(|held| Arc::ptr_eq(held, &self.closed));
        // The reference in the map and this one: there is no other waiter.
        if ours && Arc::strong_count(&self.closed) == 2 {
            awaited.remove(&self.version);
        }
    }
}
