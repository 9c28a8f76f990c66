//! The workers of a queue: each takes a key, waits until it may be synced (quarantine, barrier), syncs it, and decides when that
//! happens again.

use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flyball_api::{Key, room};
use flyball_client::Chain;
use flyball_queue::{Priority, Queue, QueueKey};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use smol_str::SmolStr;

use crate::context::Context;
use crate::error::{Retry, SyncError};
use crate::insight::{self, Work};
use crate::metrics::stale_skips;
use crate::panics::{Place, panic_text};
use crate::quarantine::{Quarantine, QuarantineCount};
use crate::signal::Signal;

/// What a panic is reported in while a key waits.
const BARRIER: &str = "the barrier";

tokio::task_local! {
    /// The sync that runs in this task.
    static SYNC: Syncing;
}

/// A sync that is running. The log names its object in each line. It is not a span: those format their fields at once, which would
/// cost each sync more than a look at an object that is as it should be.
#[derive(Debug, Clone)]
pub struct Syncing {
    pub object: Key,
    /// How often the key has failed before.
    pub attempt: u32,
    /// The era of the caches when the sync began.
    era: u64,
}

impl Syncing {
    pub fn new(object: &Key, attempt: u32, era: u64) -> Self {
        Self { object: object.clone(), attempt, era }
    }

    /// Runs `sync` as this one.
    pub fn run<F: Future>(self, sync: F) -> impl Future<Output = F::Output> {
        SYNC.scope(self, sync)
    }

    /// Calls `read` with the sync that runs in this task, if there is one.
    pub fn current<R>(read: impl FnOnce(&Self) -> R) -> Option<R> {
        SYNC.try_with(read).ok()
    }
}

/// The era of the caches that a decision is based on: when the sync began, or now outside of syncs. Shells make executors when they
/// need them, which may be after a restore of etcd was noticed, while they waited for something.
pub(crate) fn era_of_sync(cx: &Context) -> u64 {
    Syncing::current(|sync| sync.era).unwrap_or_else(|| cx.informers.era())
}

/// What happens to a key after a sync that did not fail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Next {
    /// Nothing until the next change.
    #[default]
    Settled,
    /// Requeue after this long.
    After(Duration),
}

impl Next {
    /// Requeues after `limit` at the latest.
    pub fn within(self, limit: Duration) -> Self {
        match self {
            Self::Settled => Self::After(limit),
            Self::After(delay) => Self::After(delay.min(limit)),
        }
    }
}

/// The key of a work queue. It names an object.
pub trait WorkKey: QueueKey + Display + Sync {
    /// The object, for the barrier and the log.
    fn object(&self) -> &Key;
}

impl WorkKey for Key {
    fn object(&self) -> &Key {
        self
    }
}

/// A controller's shell: brings one object closer to its spec. Safe to call at any time, any number of times, also for
/// objects that do not exist.
pub trait Reconcile<K: WorkKey = Key>: Send + Sync + 'static {
    fn sync(&self, key: &K) -> impl Future<Output = Result<Next, SyncError>> + Send;
}

/// A [`Reconcile`] as a trait object, so that the worker's code is compiled once, and the memory for a sync is allocated only
/// while it runs.
trait AnyReconcile<K>: Send + Sync {
    fn sync_boxed<'a>(&'a self, key: &'a K) -> BoxFuture<'a, Result<Next, SyncError>>;
}

impl<K: WorkKey, R: Reconcile<K>> AnyReconcile<K> for R {
    fn sync_boxed<'a>(&'a self, key: &'a K) -> BoxFuture<'a, Result<Next, SyncError>> {
        Box::pin(self.sync(key))
    }
}

/// The keys of a queue that wait at the barrier. Each has one task that waits for it, however often the key is added.
type Parked<K> = Arc<Mutex<FxHashSet<K>>>;

/// The keys of a queue that made a write which no cache has shown yet. Like those that are being synced, they are synced once
/// more when an informer is about to connect to the server again: etcd may have been restored to a state before the write, and if
/// the server has since written as many versions as it lost, the barrier is lowered although the write was undone.
///
/// Some may have been confirmed since.
struct Unconfirmed<K>(Mutex<FxHashSet<K>>);

impl<K> Default for Unconfirmed<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: WorkKey> Unconfirmed<K> {
    /// To be called after each sync. Costs two look-ups if the sync wrote nothing.
    fn synced(&self, cx: &Context, key: &K) {
        let is_unconfirmed = |key: &K| cx.barrier.unseen(key.object()).is_some();
        match is_unconfirmed(key) {
            true => self.add(key, is_unconfirmed),
            false => self.remove(key),
        }
    }

    /// Adds a key. If the table is full, removes those that have been confirmed without a further sync.
    fn add(&self, key: &K, is_unconfirmed: impl Fn(&K) -> bool) {
        let mut keys = self.0.lock();
        if keys.len() == keys.capacity() {
            keys.retain(is_unconfirmed);
            // So that the next pass over all keys follows at least as many additions.
            let room = keys.len().max(64);
            keys.reserve(room);
        }
        keys.insert(key.clone());
    }

    /// Removes a key that is confirmed.
    fn remove(&self, key: &K) {
        let mut keys = self.0.lock();
        keys.remove(key);
        if let Some(room) = room::to_keep(keys.len(), keys.capacity()) {
            keys.shrink_to(room);
        }
    }

    /// Adds them, and the keys that are being synced, to the queue.
    fn requeue(&self, cx: &Context, queue: &Queue<K>) {
        queue.add_running(Priority::Change);
        let keys = std::mem::take(&mut *self.0.lock());
        for key in keys.into_iter().filter(|key| cx.barrier.unseen(key.object()).is_some()) {
            queue.add(key, Priority::Change);
        }
    }
}

/// The workers of a queue, and what they share.
pub(crate) struct Workers<K: WorkKey> {
    cx: Arc<Context>,
    queue: Queue<K>,
    reconciler: Arc<dyn AnyReconcile<K>>,
    quarantine: Quarantine<K>,
    parked: Parked<K>,
    /// Keys that failed while deletions of the controller were held.
    held: Mutex<FxHashSet<K>>,
    unconfirmed: Arc<Unconfirmed<K>>,
    syncs: AtomicU64,
    failures: AtomicU64,
    closing: Signal,
}

/// How many keys in quarantine are named.
const NAMED: usize = 8;

impl<K: WorkKey> insight::WorkerPool for Workers<K> {
    fn work(&self) -> Work {
        let look = self.queue.look();
        let age = |found: Option<(K, Duration)>| found.map(|(key, age)| (key.to_string(), age));
        let (quarantined, in_quarantine) = self.quarantine.some(NAMED);
        Work {
            ready: look.ready,
            delayed: look.delayed,
            running: look.running,
            failing: look.failing,
            at_barrier: self.parked.lock().len(),
            syncs: self.syncs.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            oldest: age(look.oldest),
            longest: age(look.longest),
            worst: look.worst.map(|(key, failures)| (key.to_string(), failures)),
            quarantined: quarantined.into_iter().map(|(key, waits)| (key.to_string(), waits)).collect(),
            in_quarantine,
        }
    }

    fn resume(&self) {
        let keys = std::mem::take(&mut *self.held.lock());
        keys.into_iter().for_each(|key| self.queue.add(key, Priority::Change));
    }
}

impl<K: WorkKey> Workers<K> {
    pub(crate) fn new(
        cx: Arc<Context>,
        queue: Queue<K>,
        reconciler: Arc<impl Reconcile<K>>,
        quarantined: Arc<QuarantineCount>,
        closing: Signal,
    ) -> Self {
        Self {
            cx,
            queue,
            reconciler,
            quarantine: Quarantine::new(quarantined),
            parked: Parked::default(),
            held: Mutex::default(),
            unconfirmed: Arc::default(),
            syncs: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            closing,
        }
    }

    /// What to call when an informer is about to connect to the server again.
    pub(crate) fn on_connect(&self) -> impl Fn() + Send + Sync + 'static + use<K> {
        let (cx, queue, unconfirmed) = (self.cx.clone(), self.queue.clone(), self.unconfirmed.clone());
        move || cx.call_guarded("requeue unconfirmed keys", || unconfirmed.requeue(&cx, &queue))
    }

    /// One of them: syncs keys until the queue is closed.
    pub(crate) async fn work(self: Arc<Self>) {
        let Self { cx, queue, quarantine, parked, .. } = &*self;
        while let Some(key) = queue.next().await {
            if !cx.barrier.is_consistent() {
                // The whole controller has to wait, so the keys need not be parked one by one.
                tokio::select! {
                    biased;
                    () = self.closing.wait() => return,
                    () = cx.barrier.consistent() => {}
                }
            }
            if let Some(wait) = quarantine.wait(&key) {
                queue.add_after(key.clone(), wait);
                continue;
            }
            // Before the look at the barrier, which keeps the key back if a cache is not of this era yet.
            let era = cx.informers.era();
            if let Some(resource) = cx.barrier.awaited(key.object()) {
                if let Some(family) = stale_skips(cx.name) {
                    cx.metrics.counter(family, &[&resource.group, &resource.plural]).inc();
                }
                if parked.lock().insert(key.clone()) {
                    let (cx, queue, parked, key) = (cx.clone(), queue.clone(), parked.clone(), key.clone());
                    // Not a task of this run: it ends with the wait, and nothing takes the key from a closed queue.
                    tokio::spawn(async move {
                        let lowered = async {
                            cx.inject_panic(Place::Loop, &BARRIER);
                            cx.barrier.lowered(key.object()).await;
                        };
                        let lowered = AssertUnwindSafe(lowered).catch_unwind().await;
                        parked.lock().remove(&key);
                        match lowered {
                            Ok(()) => queue.add(key, Priority::Change),
                            // The key would wait for ever. When the controller is set up again, all keys are queued.
                            Err(panic) => cx.panics.report(Place::Loop, &BARRIER, &*panic),
                        }
                    });
                }
                continue;
            }
            self.sync(&key, era).await;
            // The key counts as being synced until it is dropped, after this.
            self.unconfirmed.synced(cx, &key);
        }
    }
    /// Syncs a key, and decides when it is synced again.
    async fn sync(&self, key: &K, era: u64) {
        let Self { cx, queue, quarantine, .. } = self;
        let object = key.object();
        let syncing = Syncing::new(object, queue.failures(key), era);
        let sync = async {
            cx.inject_panic(Place::Sync, key);
            // The plan records again what the key waits for.
            cx.record_waiting(object, SmolStr::default(), vec![]);
            self.reconciler.sync_boxed(key).await
        };
        let outcome = syncing.run(AssertUnwindSafe(sync).catch_unwind()).await;
        self.syncs.fetch_add(1, Ordering::Relaxed);
        if !matches!(outcome, Ok(Ok(_))) {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        match outcome {
            Ok(Ok(next)) => {
                quarantine.release(key);
                queue.forget(key);
                if let Next::After(delay) = next {
                    queue.add_after(key.clone(), delay);
                }
            }
            Ok(Err(error)) => {
                if cx.guard.as_ref().is_some_and(|guard| guard.is_held(cx.name)) {
                    self.held.lock().insert(key.clone());
                }
                after_failure(cx.name, queue, key, &error);
            }
            Err(panic) => {
                let (panic, wait) = (panic_text(&*panic), quarantine.add(key));
                tracing::error!(controller = cx.name, key = %key, panic, again_in = ?wait,
                    "a sync panicked; its key is in quarantine");
                cx.metrics.controller_panicked(cx.name, Place::Sync);
                queue.add_after(key.clone(), wait);
            }
        }
    }
}

fn after_failure<K: WorkKey>(controller: &'static str, queue: &Queue<K>, key: &K, error: &SyncError) {
    let (category, chain) = (error.category(), Chain(error));
    match error.retry() {
        Retry::Backoff if error.is_expected() => {
            tracing::debug!(controller, %key, category, error = %chain, "sync could not be completed yet; retrying");
            queue.retry(key.clone());
        }
        Retry::Backoff => {
            tracing::warn!(controller, %key, category, error = %chain, "sync failed; retrying");
            queue.retry(key.clone());
        }
        Retry::Never => {
            tracing::error!(controller, %key, category, error = %chain, "sync failed; waiting for a change");
            queue.forget(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_unconfirmed_keys_shrinks_when_they_are_confirmed() {
        let unconfirmed = Unconfirmed::default();
        let room = || unconfirmed.0.lock().capacity();
        let key = |number: u32| Key::new("ns", number.to_string());
        for number in 0..10_000 {
            unconfirmed.add(&key(number), |_| true);
        }
        assert!(room() >= 10_000);
        for number in 0..10_000 {
            unconfirmed.remove(&key(number));
        }
        assert!(room() <= 128, "{}", room());
    }

    #[test]
    fn keys_that_are_confirmed_without_a_sync_do_not_accumulate() {
        let unconfirmed = Unconfirmed::default();
        for number in 0..10_000 {
            unconfirmed.add(&Key::new("ns", number.to_string()), |_| false);
        }
        assert!(unconfirmed.0.lock().capacity() <= 256);
    }
}
