//! Waiting for a version: every waiter sleeps until its own version has come, and no earlier.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::ResourceVersion;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// Versions that somebody waits for. A semaphore that never has permits stands for each; closing it wakes all.
#[derive(Default)]
pub(crate) struct Milestones {
    awaited: Mutex<BTreeMap<ResourceVersion, Arc<Semaphore>>>,
}

impl Milestones {
    /// Waits until `passed` is called with `version` or a later one, or `void` is. `reached` is asked once the wait is set up,
    /// so that a version that comes in between is not missed.
    pub(crate) async fn wait(&self, version: ResourceVersion, reached: impl Fn() -> ResourceVersion) {
        let milestone =
            self.awaited.lock().entry(version).or_insert_with(|| Arc::new(Semaphore::new(0))).clone();
        let waiting = Waiting { milestones: self, version, milestone };
        if reached() < version {
            // Fails when the semaphore is closed, which is what we wait for.
            let _closed = waiting.milestone.acquire().await;
        }
    }

    pub(crate) fn passed(&self, version: ResourceVersion) {
        let mut awaited = self.awaited.lock();
        while let Some(first) = awaited.first_entry().filter(|first| *first.key() <= version) {
            first.remove().close();
        }
    }

    /// The server has gone back: what is waited for may never come.
    pub(crate) fn void(&self) {
        for (_, milestone) in std::mem::take(&mut *self.awaited.lock()) {
            milestone.close();
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.awaited.lock().len()
    }
}

/// Forgets the milestone when its last waiter goes, so that abandoned waits leave nothing behind.
struct Waiting<'a> {
    milestones: &'a Milestones,
    version: ResourceVersion,
    milestone: Arc<Semaphore>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut awaited = self.milestones.awaited.lock();
        let ours = awaited.get(&self.version).is_some_and(|held| Arc::ptr_eq(held, &self.milestone));
        // The map's reference and ours: nobody else waits.
        if ours && Arc::strong_count(&self.milestone) == 2 {
            awaited.remove(&self.version);
        }
    }
}
