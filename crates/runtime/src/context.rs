//! The context of a controller: clock, settings, caches, its identity, and access to writes and events.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, Object, ObjectMeta, Resource, ResourceType, WithRaw};
use flyball_cache::{AnyInformer, Change, Informer, Informers, MetaChange, Subscription};
use flyball_client::{Client, Error, ListParams};
use futures::FutureExt;
use serde_json::Value;
use smol_str::{SmolStr, format_smolstr};
use tokio::task::AbortHandle;

use crate::barrier::{Awaited, Barrier};
use crate::clock::Clock;
use crate::config::Config;
use crate::debug::DebugPages;
use crate::decisions::{Decision, DecisionLog, Outcome};
#[cfg(test)]
use crate::decisions::{Subject, Wait};
use crate::error::SyncError;
use crate::events::Recorder;
use crate::extensions::Extensions;
use crate::gates::Gates;
use crate::guard::Guard;
use crate::insight::Insight;
use crate::judge::Judge;
use crate::metrics::Metrics;
use crate::panics::{PanicInjector, Panics, Place};
use crate::pending_writes::PendingWrites;
use crate::plan::{Executor, Waiting};
use crate::workers::Next;
use crate::writer::Writer;

/// What all controllers of a process share.
#[derive(Clone)]
pub struct Shared {
    /// The manager that runs them, such as `kube-controller-manager`.
    pub component: &'static str,
    pub clock: Clock,
    pub config: Arc<Config>,
    pub gates: Gates,
    /// The caches, one per resource.
    pub informers: Informers,
    pub decisions: DecisionLog,
    pub debug: DebugPages,
    pub metrics: Metrics,
    /// The CA certificates (PEM) inside the kubeconfig, if there are any.
    pub server_ca: Option<Arc<str>>,
    /// Values that a manager passes to its own controllers.
    pub extensions: Extensions,
}

/// The context of one controller. It is kept when the controller is set up again after a panic.
pub struct Context {
    pub name: &'static str,
    /// The manager that runs it.
    pub component: &'static str,
    pub clock: Clock,
    pub config: Arc<Config>,
    pub gates: Gates,
    /// The caches, one per resource. Mostly [`informer`](Self::informer) is enough.
    pub informers: Informers,
    /// The API server under the controller's own identity, for live reads. Writes go through an [`Executor`].
    pub client: Client,
    pub events: Recorder,
    pub metrics: Metrics,
    /// The CA certificates (PEM) inside the kubeconfig, if there are any.
    pub server_ca: Option<Arc<str>>,
    pub debug: DebugPages,
    /// Values that a manager passes to its own controllers, such as a connection to a cloud.
    pub extensions: Extensions,
    pub(crate) barrier: Barrier,
    pub(crate) pending_writes: PendingWrites,
    pub(crate) panics: Panics,
    pub(crate) insight: Option<Arc<Insight>>,
    pub(crate) guard: Option<Arc<Guard>>,
    panic_injector: Option<Arc<PanicInjector>>,
    judge: Option<Arc<Judge>>,
    reader: Client,
    decisions: DecisionLog,
}

impl Context {
    /// `client` has the identity of the controller; `reader` may list every cached resource.
    pub fn new(
        name: &'static str,
        shared: &Shared,
        client: Client,
        reader: Client,
        events: Recorder,
    ) -> Self {
        let Shared {
            component,
            clock,
            config,
            gates,
            informers,
            decisions,
            debug,
            metrics,
            server_ca,
            extensions,
        } = shared.clone();
        let barrier = Barrier::new(informers.clone(), reader.clone());
        Self {
            name,
            component,
            clock,
            config,
            gates,
            informers,
            client,
            events,
            pending_writes: PendingWrites::default(),
            panics: Panics::new(name, metrics.clone()),
            insight: extensions.get(),
            guard: extensions.get(),
            panic_injector: extensions.get(),
            judge: extensions.get(),
            metrics,
            server_ca,
            debug,
            extensions,
            barrier,
            reader,
            decisions,
        }
    }

    pub fn informer<T: Resource>(&self) -> Arc<Informer<T>> {
        self.informers.get::<T>()
    }

    /// An object as the server has it, read under the account of the controller; `None` if there is none.
    pub async fn find<T: Resource>(&self, key: &Key) -> Result<Option<T>, SyncError> {
        found(&T::TYPE, key, self.client.get::<T>(key).await)
    }

    /// The same, with all its fields beside those that controllers know.
    pub async fn find_with_raw<T: Resource>(&self, key: &Key) -> Result<Option<WithRaw<T>>, SyncError> {
        found(&T::TYPE, key, self.client.get_as(&T::TYPE, key, None).await)
    }

    /// The same for an object of any resource, with all its fields.
    pub async fn find_dynamic(&self, resource: &ResourceType, key: &Key) -> Result<Option<Value>, SyncError> {
        found(resource, key, self.client.get_dynamic(resource, key).await)
    }

    /// The current object with all its fields, for a PUT: caches hold only the fields that controllers read. It is listed with
    /// the identity that fills the caches, since controllers often have no right to get what they write.
    pub async fn whole<T: Resource>(&self, key: &Key) -> Result<Option<Value>, Error> {
        self.whole_dynamic(&T::TYPE, key).await
    }

    /// The same for an object of any resource.
    pub async fn whole_dynamic(&self, resource: &ResourceType, key: &Key) -> Result<Option<Value>, Error> {
        let field_selector = Some(format_smolstr!("metadata.name={}", key.name));
        let params = ListParams { field_selector, ..ListParams::default() };
        let namespace = Some(key.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let mut found = self.reader.list_as::<Value>(resource, namespace, &params).await?.items;
        Ok(found.pop())
    }

    /// All objects of a namespace as the server has them now, likewise.
    pub async fn listed<T: Resource>(&self, namespace: &str) -> Result<Vec<T>, Error> {
        Ok(self.reader.list::<T>(Some(namespace), &ListParams::default()).await?.items)
    }

    pub(crate) fn writer<'a>(&'a self, owner: &'a Key) -> Writer<'a> {
        Writer::new(self, owner)
    }

    /// Executes plans for `key`.
    pub fn executor<'a>(&'a self, key: &'a Key) -> Executor<'a> {
        Executor::new(self, key)
    }

    /// Ends a sync of `key` that needs the cache of `T` to show what the server has now, for instance since an object of another
    /// resource refers to something that is missing there. The key is synced again once the cache does. This costs a request.
    ///
    /// The version of the other object does not say whether the cache is current: with `--etcd-servers-overrides`, resources are
    /// in separate etcds, and their versions cannot be compared.
    pub fn sync_when_current<T: Resource>(&self, key: &Key) -> Next {
        self.barrier.raise(key, &T::TYPE, Awaited::Present(None));
        Next::After(Duration::ZERO)
    }

    /// No key is synced while this cache has lost its watch and does not know whether etcd was restored. If this is called by a
    /// preparation, workers start after a takeover when the cache shows what the former leader wrote. Not needed for caches of
    /// [`Tasks::needs`](crate::Tasks::needs) and [`Tasks::on`](crate::Tasks::on).
    pub fn needs(&self, cache: &Arc<dyn AnyInformer>) {
        self.barrier.needs(cache);
    }

    /// Records what a key waits for. `kind` is that of its object.
    pub(crate) fn record_waiting(&self, key: &Key, kind: SmolStr, waiting: Vec<Waiting>) {
        self.decisions.record_waiting(self.name, key, kind, waiting);
    }

    /// Calls `trigger` for every change in a cache, until the subscription is dropped. If it panics, the controller is set up
    /// again, since its own state may no longer agree with the cache.
    pub fn subscribe<T: Object>(
        self: &Arc<Self>,
        informer: &Informer<T>,
        trigger: impl Fn(&Change<'_, T>) + Send + Sync + 'static,
    ) -> Subscription {
        let cx = self.clone();
        informer.subscribe(Box::new(move |change| cx.call_trigger(&|| change.key(), || trigger(change))))
    }

    /// The same for a cache of any resource.
    pub fn subscribe_meta(
        self: &Arc<Self>,
        informer: &dyn AnyInformer,
        trigger: impl Fn(&MetaChange<'_>) + Send + Sync + 'static,
    ) -> Subscription {
        let cx = self.clone();
        let key =
            |change: &MetaChange<'_>| change.new.or(change.old).map(ObjectMeta::key).unwrap_or_default();
        informer.subscribe_meta(Box::new(move |change| cx.call_trigger(&|| key(change), || trigger(change))))
    }

    /// Calls a trigger, and reports its panic. The informer counts the panic, too, and continues.
    fn call_trigger(&self, key: &dyn Fn() -> Key, trigger: impl FnOnce()) {
        let call = || {
            if self.panic_injector.is_some() {
                self.inject_panic(Place::Trigger, &key());
            }
            trigger();
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(call)) {
            self.panics.report(Place::Trigger, &key(), &*panic);
            resume_unwind(panic);
        }
    }

    /// Runs a task on which nothing depends, beside the loops of the controller, until it ends or is aborted. A panic ends it alone, and
    /// is counted with those of the controller.
    pub fn run_aside(
        self: &Arc<Self>,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> AbortHandle {
        let cx = self.clone();
        let task = async move {
            let task = async {
                cx.inject_panic(Place::Aside, &name);
                task.await;
            };
            if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
                cx.panics.record(Place::Aside, &name, &*panic);
            }
        };
        tokio::spawn(task).abort_handle()
    }

    /// Calls what must not end its caller, such as an informer. The controller is set up again after a panic.
    pub(crate) fn call_guarded(&self, what: &'static str, call: impl FnOnce()) {
        let call = || {
            self.inject_panic(Place::Trigger, &what);
            call();
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(call)) {
            self.panics.report(Place::Trigger, &what, &*panic);
        }
    }

    /// Lets a test inject a panic here.
    pub(crate) fn inject_panic(&self, place: Place, what: &dyn Display) {
        if let Some(panic_injector) = &self.panic_injector {
            panic_injector.inject_panic(self.name, place, what);
        }
    }

    /// Checks a decision against the controller's invariants, if this process has a judge.
    pub fn judge(&self, check: impl FnOnce() -> Result<(), String>) {
        if let Some(judge) = &self.judge {
            judge.record(self.name, check());
        }
    }

    #[cfg(test)]
    pub(crate) fn judged_by(self, judge: Arc<Judge>) -> Self {
        Self { judge: Some(judge), ..self }
    }

    #[cfg(test)]
    pub(crate) fn waiting(&self, key: &Key) -> Vec<Waiting> {
        let is_of = |wait: &Wait| wait.controller == self.name && wait.object == Subject::new("", key);
        self.decisions.waiting(1, is_of).pop().map(|wait| wait.waiting_for).unwrap_or_default()
    }

    /// Logs a write that was made.
    pub(crate) fn decide(&self, decision: Decision) {
        let Decision { controller, action, target, subresource, why, owner, .. } = &decision;
        match &decision.outcome {
            Outcome::Done => {
                tracing::info!(controller, %owner, action, %target, %subresource, why = why.as_str(), "wrote")
            }
            Outcome::Refused(error) | Outcome::Unknown(error) | Outcome::NotSent(error) => {
                tracing::info!(controller, %owner, action, %target, %subresource, why = why.as_str(), error, "write failed");
            }
        }
        self.decisions.record(decision);
    }
}

fn found<T>(resource: &ResourceType, key: &Key, read: Result<T, Error>) -> Result<Option<T>, SyncError> {
    match read {
        Err(error) if error.is_not_found() => Ok(None),
        read => read.map(Some).map_err(SyncError::api(format!("reading {} {key}", resource.kind))),
    }
}
