//! The tasks of one run of one controller: its `start` sets up triggers that fill its queues, workers and loops; they begin when the
//! caches have synced, and end in order.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::Object;
use flyball_cache::{AnyInformer, Change, Informer, Origin, Subscription};
use flyball_queue::{Backoff, Priority, Queue};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Instrument;

use crate::barrier::is_stuck;
use crate::context::Context;
use crate::health::{Complaint, Health};
use crate::insight;
use crate::panics::Place;
use crate::quarantine::QuarantineCount;
use crate::signal::{Signal, Since};
use crate::workers::{Reconcile, WorkKey, Workers};

/// How long the start of a controller waits for a cache that its preparation has found to become current.
const PREPARED_PATIENCE: Duration = Duration::from_secs(30);

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
        let workers = Arc::new(Workers::new(
            self.cx.clone(),
            queue.clone(),
            reconciler,
            self.quarantined.clone(),
            self.closing.clone(),
        ));
        let seen: Arc<dyn insight::WorkerPool> = workers.clone();
        if let Some(insight) = &self.cx.insight {
            insight.add(self.cx.name, Arc::downgrade(&seen));
        }
        if let Some(guard) = &self.cx.guard {
            guard.register_workers(self.cx.name, Arc::downgrade(&seen));
        }
        for n in 0..count.max(1) {
            self.not_started.push((format!("worker {n}"), workers.clone().work().boxed()));
        }
        let on_connect = self.cx.informers.on_connect(workers.on_connect());
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
