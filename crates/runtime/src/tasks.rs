//! The tasks of one run of one controller: triggers that fill its queues and workers that empty them.

use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, Object};
use flyball_cache::{AnyInformer, Change, Informer, Origin, Subscription};
use flyball_queue::{Backoff, Priority, Queue, QueueKey};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use smol_str::SmolStr;
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::alarm::{Place, panic_text};
use crate::context::Context;
use crate::error::{Chain, Retry, SyncError};
use crate::health::{Complaint, Health};
use crate::metrics::stale_skips;
use crate::quarantine::{Quarantine, Ward};
use crate::signal::{Signal, Since};

/// What is to happen to a key after a sync that did not fail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Next {
    #[default]
    Settled,
    /// Look again after this long.
    After(Duration),
}

impl Next {
    /// The same, but no later than after `limit`.
    pub fn within(self, limit: Duration) -> Self {
        match self {
            Self::Settled => Self::After(limit),
            Self::After(delay) => Self::After(delay.min(limit)),
        }
    }
}

/// What a queue of work may hold: something that names an object.
pub trait WorkKey: QueueKey + Display + Sync {
    /// The object, for the barrier and the log.
    fn object(&self) -> &Key;
}

impl WorkKey for Key {
    fn object(&self) -> &Key {
        self
    }
}

/// A controller's shell: brings one object closer to what is wanted. Safe to call at any time, any number of
/// times, for objects that are there and objects that are gone.
pub trait Reconcile<K: WorkKey = Key>: Send + Sync + 'static {
    /// Looks at one key and acts.
    fn sync(&self, key: &K) -> impl Future<Output = Result<Next, SyncError>> + Send;
}

/// A [`Reconcile`] behind a pointer, so that one worker's code serves all controllers, and the room that a sync needs is
/// taken only while there is one.
trait AnyReconcile<K>: Send + Sync {
    fn sync_boxed<'a>(&'a self, key: &'a K) -> BoxFuture<'a, Result<Next, SyncError>>;
}

impl<K: WorkKey, R: Reconcile<K>> AnyReconcile<K> for R {
    fn sync_boxed<'a>(&'a self, key: &'a K) -> BoxFuture<'a, Result<Next, SyncError>> {
        Box::pin(self.sync(key))
    }
}

/// Collects what a controller runs. Nothing runs before the supervisor says so.
pub struct Tasks {
    cx: Arc<Context>,
    ward: Arc<Ward>,
    subscriptions: Vec<Subscription>,
    synced: Vec<BoxFuture<'static, ()>>,
    caches: Vec<Arc<dyn AnyInformer>>,
    running: Vec<(String, BoxFuture<'static, ()>)>,
    closers: Vec<Box<dyn Fn() + Send + Sync>>,
    closing: Signal,
    complaint: Complaint,
}

impl Tasks {
    pub(crate) fn new(cx: Arc<Context>, health: &Health) -> Self {
        let (close, closing) = Signal::new();
        let closers: Vec<Box<dyn Fn() + Send + Sync>> = vec![Box::new(move || close.give())];
        Self {
            ward: Arc::new(Ward::new(cx.name, &cx.metrics, health)),
            complaint: health.complaint(cx.name),
            cx,
            subscriptions: vec![],
            synced: vec![],
            caches: vec![],
            running: vec![],
            closers,
            closing,
        }
    }

    /// The surroundings of the controller whose tasks these are.
    pub(crate) fn context(&self) -> Arc<Context> {
        self.cx.clone()
    }

    /// The way to say that the controller runs and yet cannot do its work.
    pub fn complaint(&self) -> Complaint {
        self.complaint.clone()
    }

    /// A queue under the name that its metrics have upstream.
    pub fn queue<K: WorkKey>(&mut self, name: &'static str) -> Queue<K> {
        self.queue_with(name, Backoff::default())
    }

    /// A queue whose failing keys wait differently.
    pub fn queue_with<K: WorkKey>(&mut self, name: &'static str, backoff: Backoff) -> Queue<K> {
        let queue = Queue::new(backoff, self.cx.metrics.queue_observer(name));
        // What a closed queue still holds is nobody's work.
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

    /// Waits for a cache to be filled before any worker starts, without listening to its changes.
    pub fn needs<T: Object>(&mut self, informer: &Arc<Informer<T>>) {
        let informer = informer.clone();
        self.caches.push(informer.clone());
        self.synced.push(async move { informer.synced().await }.map(|_| ()).boxed());
    }

    /// Begins with `preparation` at once, also on standby; no worker starts before it is finished.
    pub fn prepare(&mut self, preparation: impl Future<Output = ()> + Send + 'static) {
        let (cx, mut begun) = (self.cx.clone(), JoinSet::new());
        begun.spawn(async move {
            let preparation = async {
                cx.tempt(Place::Preparation, &cx.name);
                preparation.await;
            };
            if let Err(panic) = AssertUnwindSafe(preparation).catch_unwind().await {
                cx.alarm.ring(Place::Preparation, &cx.name, &*panic);
                // What it was to prepare must not start without it.
                std::future::pending::<()>().await;
            }
        });
        self.synced.push(async move { while begun.join_next().await.is_some() {} }.boxed());
    }

    /// Calls `trigger` for every change in a cache; it may only put keys into queues.
    pub fn on<T: Object>(
        &mut self,
        informer: &Arc<Informer<T>>,
        trigger: impl Fn(&Change<'_, T>) + Send + Sync + 'static,
    ) {
        self.needs(informer);
        self.subscriptions.push(self.cx.subscribe(informer, trigger));
    }

    /// Puts the keys that `concerned` finds in every change of a cache into a queue, as urgent as the change is.
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
        let reconciler: Arc<dyn AnyReconcile<K>> = reconciler;
        let quarantine = Arc::new(Quarantine::new(self.ward.clone()));
        let parked = Parked::default();
        for n in 0..count.max(1) {
            let work =
                work(self.cx.clone(), queue.clone(), reconciler.clone(), quarantine.clone(), parked.clone());
            self.running.push((format!("worker {n}"), work.boxed()));
        }
    }

    /// Runs a loop of the controller's own beside its workers, once the caches are filled. It must end by
    /// itself only when it has nothing left to do. At the end it is left where it waits, though not for the answer to
    /// a write; workers finish their keys.
    pub fn spawn(&mut self, name: impl Into<String>, task: impl Future<Output = ()> + Send + 'static) {
        let (name, cx, closing) = (name.into(), self.cx.clone(), self.closing.given());
        let tempted = name.clone();
        let task = async move {
            let end = async {
                closing.await;
                cx.under_way.none().await;
            };
            let task = async {
                cx.tempt(Place::Loop, &tempted);
                task.await;
            };
            tokio::select! {
                // First, so that the loop does not begin with another write in between.
                biased;
                () = end => {}
                () = task => {}
            }
        };
        self.running.push((name, task.boxed()));
    }

    /// Waits for the caches, then starts everything: they must show all that a former leader wrote, until `since`. The
    /// subscriptions live as long as what is returned.
    pub(crate) async fn start(self, since: Since) -> Running {
        let Self { cx, subscriptions, synced, caches, running, closers, .. } = self;
        futures::future::join_all(synced).await;
        if let Some(since) = since {
            futures::future::join_all(caches.iter().map(|cache| cache.current_since(since))).await;
        }
        let mut set = JoinSet::new();
        for (name, task) in running {
            let span = tracing::info_span!("controller", controller = cx.name, task = %name);
            set.spawn(heeded(cx.clone(), name, task).instrument(span));
        }
        Running { set, closers, subscriptions }
    }
}

/// Runs a task; if it panics the supervisor hears of it.
async fn heeded(cx: Arc<Context>, name: String, task: BoxFuture<'static, ()>) {
    if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
        cx.alarm.ring(Place::Loop, &name, &*panic);
    }
}

pub(crate) struct Running {
    set: JoinSet<()>,
    closers: Vec<Box<dyn Fn() + Send + Sync>>,
    subscriptions: Vec<Subscription>,
}

impl Running {
    /// How many tasks it has.
    pub(crate) fn len(&self) -> usize {
        self.set.len()
    }

    /// Lets no worker take another key, and waits for those in hand. What takes longer than `grace` is left; the barrier
    /// then learns by itself what became of its writes.
    pub(crate) async fn drain(mut self, grace: Duration) {
        self.subscriptions.clear();
        for close in &self.closers {
            close();
        }
        let finish = async { while self.set.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(grace, finish).await;
    }
}

/// How urgent the keys of a change are: what is only being listed or looked at again can wait.
pub fn priority(origin: Origin) -> Priority {
    match origin {
        Origin::Initial | Origin::Resync => Priority::Sweep,
        Origin::Watch | Origin::Relist => Priority::Change,
    }
}

/// The keys of a queue that wait at the barrier, each once, however often they are asked for meanwhile.
type Parked<K> = Arc<Mutex<FxHashSet<K>>>;

/// One worker: takes keys until the queue is closed.
async fn work<K: WorkKey>(
    cx: Arc<Context>,
    queue: Queue<K>,
    reconciler: Arc<dyn AnyReconcile<K>>,
    quarantine: Arc<Quarantine<K>>,
    parked: Parked<K>,
) {
    while let Some(key) = queue.next().await {
        let object = key.object();
        if let Some(wait) = quarantine.wait(&key) {
            queue.add_after(key.clone(), wait);
            continue;
        }
        if let Some(resource) = cx.barrier.awaited(object) {
            if let Some(family) = stale_skips(cx.name) {
                cx.metrics.counter(family, &[&resource.group, &resource.plural]).inc();
            }
            if parked.lock().insert(key.clone()) {
                let (cx, queue, parked, key) = (cx.clone(), queue.clone(), parked.clone(), key.clone());
                tokio::spawn(async move {
                    cx.barrier.lowered(key.object()).await;
                    parked.lock().remove(&key);
                    queue.add(key, Priority::Change);
                });
            }
            continue;
        }
        let attempt = queue.failures(&key);
        let span = tracing::info_span!("sync", namespace = %object.namespace, name = %object.name, attempt);
        let sync = async {
            cx.tempt(Place::Sync, &*key);
            // The plan notes it again if the key still waits.
            cx.note_waiting(object, SmolStr::default(), vec![]);
            reconciler.sync_boxed(&key).await
        };
        match AssertUnwindSafe(sync).catch_unwind().instrument(span).await {
            Ok(Ok(next)) => {
                quarantine.release(&key);
                queue.forget(&key);
                if let Next::After(delay) = next {
                    queue.add_after(key.clone(), delay);
                }
            }
            Ok(Err(error)) => after_failure(cx.name, &queue, &key, &error),
            Err(panic) => {
                let (panic, wait) = (panic_text(&*panic), quarantine.add(&key));
                tracing::error!(controller = cx.name, key = %*key, panic, again_in = ?wait,
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
            tracing::debug!(controller, %key, category, error = %chain, "lost a race; trying again");
            queue.retry(key.clone());
        }
        Retry::Backoff => {
            tracing::warn!(controller, %key, category, error = %chain, "sync failed; trying again");
            queue.retry(key.clone());
        }
        Retry::Never => {
            tracing::error!(controller, %key, category, error = %chain, "sync failed; waiting for a change");
            queue.forget(key);
        }
    }
}
