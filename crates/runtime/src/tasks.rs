//! The tasks of one run of one controller: triggers that fill its queues, and workers that sync the keys.

use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flyball_api::{Key, Object, room};
use flyball_cache::{AnyInformer, Change, Informer, Origin, Subscription};
use flyball_queue::{Backoff, Priority, Queue, QueueKey};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use smol_str::SmolStr;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Instrument;

use crate::barrier::is_stuck;
use crate::context::Context;
use crate::error::{Chain, Retry, SyncError};
use crate::health::{Complaint, Health};
use crate::insight::{self, Work};
use crate::metrics::stale_skips;
use crate::panics::{Place, panic_text};
use crate::quarantine::{Quarantine, QuarantineCount};
use crate::signal::{Signal, Since};

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

/// What a panic is reported in while a key waits.
const BARRIER: &str = "the barrier";

/// How long the start of a controller waits for a cache that its preparation has found to become current.
const PREPARED_PATIENCE: Duration = Duration::from_secs(30);

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

/// What a controller runs: its `start` function adds subscriptions, workers and loops, and the supervisor starts them.
pub struct Tasks {
    cx: Arc<Context>,
    quarantined: Arc<QuarantineCount>,
    subscriptions: Vec<Subscription>,
    /// Complete when caches have synced and preparations have finished.
    synced: Vec<BoxFuture<'static, ()>>,
    caches: Vec<Arc<dyn AnyInformer>>,
    /// Workers and loops with their names, to be started.
    not_started: Vec<(String, BoxFuture<'static, ()>)>,
    /// Called at shutdown: they close the queues and set `closing`.
    closers: Vec<Box<dyn Fn() + Send + Sync>>,
    closing: Signal,
    complaint: Complaint,
}

/// A lower bound for the periods of resyncs.
const SHORTEST_RESYNC_PERIOD: Duration = Duration::from_millis(100);

impl Tasks {
    pub(crate) fn new(cx: Arc<Context>, health: &Health) -> Self {
        let (close, closing) = Signal::new();
        if let Some(insight) = &cx.insight {
            insight.set_up(cx.name, &cx.barrier);
        }
        let closers: Vec<Box<dyn Fn() + Send + Sync>> = vec![Box::new(move || close.set())];
        Self {
            quarantined: Arc::new(QuarantineCount::new(cx.name, &cx.metrics, health)),
            complaint: health.complaint(cx.name),
            cx,
            subscriptions: vec![],
            synced: vec![],
            caches: vec![],
            not_started: vec![],
            closers,
            closing,
        }
    }

    pub(crate) fn context(&self) -> Arc<Context> {
        self.cx.clone()
    }

    /// Makes the controller's health check fail, for a controller that runs but cannot do its work.
    pub fn complaint(&self) -> Complaint {
        self.complaint.clone()
    }

    /// `name` is that of the queue's metrics, as in upstream.
    pub fn queue<K: WorkKey>(&mut self, name: &'static str) -> Queue<K> {
        self.queue_with(name, Backoff::default())
    }

    pub fn queue_with<K: WorkKey>(&mut self, name: &'static str, backoff: Backoff) -> Queue<K> {
        let queue = Queue::new(backoff, self.cx.metrics.queue_observer(name));
        // The remaining keys of a closed queue do not count as work.
        let shown = Arc::new(Mutex::new(Some(queue.clone())));
        self.cx.metrics.watch_queue(name, {
            let shown = shown.clone();
            move || {
                shown.lock().as_ref().map(|queue| (queue.depth(), queue.work_in_hand())).unwrap_or_default()
            }
        });
        let closing = queue.clone();
        self.closers.push(Box::new(move || {
            closing.close();
            *shown.lock() = None;
        }));
        queue
    }

    /// Workers start only after this cache has synced. For caches without triggers.
    pub fn needs<T: Object>(&mut self, informer: &Arc<Informer<T>>) {
        let informer = informer.clone();
        let cache: Arc<dyn AnyInformer> = informer.clone();
        self.cx.needs(&cache);
        self.caches.push(cache);
        self.synced.push(async move { informer.synced().await }.map(|_| ()).boxed());
    }

    /// Runs `preparation` at once, also on standby; no worker starts before it has finished.
    pub fn prepare(&mut self, preparation: impl Future<Output = ()> + Send + 'static) {
        // A set, so that the task is aborted when the controller is set up again.
        let (cx, mut running) = (self.cx.clone(), JoinSet::new());
        running.spawn(async move {
            let preparation = async {
                cx.inject_panic(Place::Preparation, &cx.name);
                preparation.await;
            };
            if let Err(panic) = AssertUnwindSafe(preparation).catch_unwind().await {
                cx.panics.report(Place::Preparation, &cx.name, &*panic);
                // Workers must not start without it.
                std::future::pending::<()>().await;
            }
        });
        self.synced.push(async move { while running.join_next().await.is_some() {} }.boxed());
    }

    /// Calls `trigger`, which should only add keys to queues, for every change in a cache.
    pub fn on<T: Object>(
        &mut self,
        informer: &Arc<Informer<T>>,
        trigger: impl Fn(&Change<'_, T>) + Send + Sync + 'static,
    ) {
        self.needs(informer);
        self.subscriptions.push(self.cx.subscribe(informer, trigger));
    }

    /// Adds the keys that `concerned` returns for each change of a cache to a queue, with the priority of the change.
    pub fn feed<T: Object, K: WorkKey, I: IntoIterator<Item = K>>(
        &mut self,
        informer: &Arc<Informer<T>>,
        queue: &Queue<K>,
        concerned: impl Fn(&Change<'_, T>) -> I + Send + Sync + 'static,
    ) {
        let queue = queue.clone();
        self.on(informer, move |change| {
            for key in concerned(change) {
                queue.add(key, priority(change.origin));
            }
        });
    }

    /// Starts `count` workers that reconcile the keys of `queue`.
    pub fn workers<K: WorkKey>(
        &mut self,
        queue: &Queue<K>,
        count: usize,
        reconciler: Arc<impl Reconcile<K>>,
    ) {
        let crew = Arc::new(Crew {
            cx: self.cx.clone(),
            queue: queue.clone(),
            reconciler,
            quarantine: Quarantine::new(self.quarantined.clone()),
            parked: Parked::default(),
            held: Mutex::default(),
            unconfirmed: Arc::default(),
            syncs: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            closing: self.closing.clone(),
        });
        let seen: Arc<dyn insight::WorkerPool> = crew.clone();
        if let Some(insight) = &self.cx.insight {
            insight.add(self.cx.name, Arc::downgrade(&seen));
        }
        if let Some(guard) = &self.cx.guard {
            guard.register_workers(self.cx.name, Arc::downgrade(&seen));
        }
        let unconfirmed = crew.unconfirmed.clone();
        for n in 0..count.max(1) {
            self.not_started.push((format!("worker {n}"), work(crew.clone()).boxed()));
        }
        let (cx, queue) = (self.cx.clone(), queue.clone());
        let on_connect = self.cx.informers.on_connect(move || {
            cx.call_guarded("requeue unconfirmed keys", || unconfirmed.requeue(&cx, &queue));
        });
        self.subscriptions.push(on_connect);
    }

    /// Calls `add`, which should only add keys to queues, each time `period` has passed. The first time is after a period: the initial
    /// lists have filled the queues already.
    pub fn resync(&mut self, period: Duration, add: impl Fn() + Send + 'static) {
        // So that no flag makes this a busy loop.
        let period = period.max(SHORTEST_RESYNC_PERIOD);
        self.spawn("resync", async move {
            loop {
                tokio::time::sleep(period).await;
                add();
            }
        });
    }

    /// Runs a loop of the controller beside its workers, once the caches are filled. If it returns, it is not started again.
    /// At shutdown it is cancelled at its current await point, but not while a write is pending; workers finish their
    /// keys.
    pub fn spawn(&mut self, name: impl Into<String>, task: impl Future<Output = ()> + Send + 'static) {
        let (name, cx, closing) = (name.into(), self.cx.clone(), self.closing.wait());
        let loop_name = name.clone();
        let task = async move {
            let end = async {
                closing.await;
                cx.pending_writes.none().await;
            };
            let task = async {
                cx.inject_panic(Place::Loop, &loop_name);
                task.await;
            };
            tokio::select! {
                // Polled first, so that the loop does not begin another write.
                biased;
                () = end => {}
                () = task => {}
            }
        };
        self.not_started.push((name, task.boxed()));
    }

    /// Waits until the caches have synced and show everything that a former leader wrote until `since`, then starts
    /// everything. The subscriptions end with the returned value.
    pub(crate) async fn start(self, since: Since) -> Running {
        let Self { cx, subscriptions, synced, caches, not_started, closers, .. } = self;
        futures::future::join_all(synced).await;
        if let Some(since) = since {
            let own = futures::future::join_all(caches.iter().map(|cache| own_since(&cx, &**cache, since)));
            tokio::join!(own, prepared_since(&cx, &caches, since));
        }
        let mut set = JoinSet::new();
        for (name, task) in not_started {
            let span = tracing::info_span!("controller", controller = cx.name, task = %name);
            set.spawn(report_panic(cx.clone(), name, task).instrument(span));
        }
        Running { cx, set, closers, subscriptions }
    }
}

/// Waits until a cache that the controller has named shows everything up to `since`. One that cannot be listed any more, as the
/// controller's rights or the resource have gone, is not waited for: with it, nothing would ever be done.
async fn own_since(cx: &Context, cache: &dyn AnyInformer, since: Instant) {
    while tokio::time::timeout(PREPARED_PATIENCE, cache.current_since(since)).await.is_err() {
        let (controller, resource) = (cx.name, cache.resource());
        if is_stuck(cache) {
            tracing::warn!(controller, %resource, "starting with a cache that cannot be listed and may be outdated");
            return;
        }
        tracing::warn!(controller, %resource, "not started yet: the cache does not show all writes of the former leader");
    }
}

/// Waits until the caches that the preparation of a controller has found show everything up to `since`. Which ones there are
/// is decided by what the server serves, broken definitions included: one that was never listed, or that has failed for long
/// while this process stood by, is not waited for, and one that fails now only for a while.
async fn prepared_since(cx: &Context, own: &[Arc<dyn AnyInformer>], since: Instant) {
    let is_own = |cache: &Arc<dyn AnyInformer>| own.iter().any(|own| Arc::ptr_eq(own, cache));
    let is_awaited =
        |cache: &Arc<dyn AnyInformer>| cache.has_synced() && !is_stuck(&**cache) && !is_own(cache);
    let found: Vec<_> = cx.barrier.needed().into_iter().filter(is_awaited).collect();
    let late = Mutex::new(vec![]);
    futures::future::join_all(found.iter().map(|cache| async {
        if tokio::time::timeout(PREPARED_PATIENCE, cache.current_since(since)).await.is_err() {
            late.lock().push(cache.resource().to_string());
        }
    }))
    .await;
    let late = late.into_inner();
    if !late.is_empty() {
        tracing::warn!(
            controller = cx.name,
            ?late,
            "some caches may lag behind a former leader's writes; starting with what they have"
        );
    }
}

/// Runs a task, and reports its panic to the supervisor.
async fn report_panic(cx: Arc<Context>, name: String, task: BoxFuture<'static, ()>) {
    if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
        cx.panics.report(Place::Loop, &name, &*panic);
    }
}

/// How a controller has ended; of several, the largest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ended {
    /// All syncs have ended by themselves, and the outcome of each write is known.
    Orderly,
    /// All syncs have ended by themselves, but the server may still be about to carry out a write.
    WritesUnknown,
    /// Syncs were cancelled because they took too long.
    Cancelled,
}

pub(crate) struct Running {
    cx: Arc<Context>,
    set: JoinSet<()>,
    closers: Vec<Box<dyn Fn() + Send + Sync>>,
    subscriptions: Vec<Subscription>,
}

impl Running {
    pub(crate) fn len(&self) -> usize {
        self.set.len()
    }

    /// Stops workers from taking keys, and waits at most `grace` for the running syncs; then they are cancelled. A write that
    /// was cancelled counts as one of unknown outcome, which the barrier reads from the server.
    pub(crate) async fn drain(mut self, grace: Duration) -> Ended {
        self.subscriptions.clear();
        for close in &self.closers {
            close();
        }
        let finish = async { while self.set.join_next().await.is_some() {} };
        let has_finished = tokio::time::timeout(grace, finish).await.is_ok();
        match (has_finished, self.cx.pending_writes.may_be_under_way()) {
            (true, false) => Ended::Orderly,
            (true, true) => Ended::WritesUnknown,
            (false, _) => Ended::Cancelled,
        }
    }
}

/// Keys of an initial list or a resync have the low priority of a sweep.
pub fn priority(origin: Origin) -> Priority {
    match origin {
        Origin::Initial | Origin::Resync => Priority::Sweep,
        Origin::Watch | Origin::Relist => Priority::Change,
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
struct Crew<K: WorkKey> {
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

impl<K: WorkKey> insight::WorkerPool for Crew<K> {
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

/// A worker: syncs keys until the queue is closed.
async fn work<K: WorkKey>(crew: Arc<Crew<K>>) {
    let Crew { cx, queue, quarantine, parked, .. } = &*crew;
    while let Some(key) = queue.next().await {
        if !cx.barrier.is_consistent() {
            // The whole controller has to wait, so the keys need not be parked one by one.
            tokio::select! {
                biased;
                () = crew.closing.wait() => return,
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
        crew.sync(&key, era).await;
        // The key counts as being synced until it is dropped, after this.
        crew.unconfirmed.synced(cx, &key);
    }
}

impl<K: WorkKey> Crew<K> {
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
