//! What a controller is given: a clock, settings, caches, its own identity, and the ways to write and to tell.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use flyball_api::{Key, Object, ObjectMeta, Resource, ResourceType};
use flyball_cache::{AnyInformer, Change, Informer, Informers, MetaChange, Subscription};
use flyball_client::{Client, Error, ListParams};
use serde_json::Value;
use smol_str::{SmolStr, format_smolstr};

use crate::alarm::{Alarm, Place, Sabotage};
use crate::barrier::Barrier;
use crate::clock::Clock;
use crate::config::Config;
use crate::debug::DebugPages;
use crate::decisions::{Decision, DecisionLog, Outcome};
use crate::events::Recorder;
use crate::extensions::Extensions;
use crate::gates::Gates;
use crate::judge::{Judge, Verdict};
use crate::metrics::Metrics;
use crate::plan::{Executor, Waiting};
use crate::under_way::UnderWay;
use crate::writer::Writer;

/// What all controllers of a process share.
#[derive(Clone)]
pub struct Shared {
    /// The manager that runs them, `kube-controller-manager` for one.
    pub component: &'static str,
    pub clock: Clock,
    pub config: Arc<Config>,
    pub gates: Gates,
    /// The caches, one per resource.
    pub informers: Informers,
    pub decisions: DecisionLog,
    /// What controllers show about themselves.
    pub debug: DebugPages,
    pub metrics: Metrics,
    /// The certificates (PEM) by which we trust the API server, if we were told any.
    pub server_ca: Option<Arc<str>>,
    /// What this manager brings along for its own controllers.
    pub extensions: Extensions,
}

/// The surroundings of one controller, for as long as the process lasts: also when it has to be set up anew.
pub struct Context {
    pub name: &'static str,
    /// The manager that runs it.
    pub component: &'static str,
    pub clock: Clock,
    pub config: Arc<Config>,
    pub gates: Gates,
    /// The caches, one per resource, for the rarer ways of getting at them.
    pub informers: Informers,
    /// The API server under the controller's own identity, for live reads. Writes go through a [`Writer`].
    pub client: Client,
    pub events: Recorder,
    pub metrics: Metrics,
    /// The certificates (PEM) by which we trust the API server, if we were told any.
    pub server_ca: Option<Arc<str>>,
    /// What controllers show about themselves.
    pub debug: DebugPages,
    /// What this manager brings along for its own controllers: a connection to a cloud, say.
    pub extensions: Extensions,
    pub(crate) barrier: Barrier,
    pub(crate) under_way: UnderWay,
    pub(crate) alarm: Alarm,
    sabotage: Option<Arc<Sabotage>>,
    judge: Option<Arc<Judge>>,
    reader: Client,
    decisions: DecisionLog,
}

impl Context {
    /// The surroundings of the controller `name`, which acts with `client` and tells through `events`. `reader`
    /// may list whatever is cached.
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
            under_way: UnderWay::default(),
            alarm: Alarm::new(name, metrics.clone()),
            sabotage: extensions.get(),
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

    /// The cache of a kind.
    pub fn informer<T: Resource>(&self) -> Arc<Informer<T>> {
        self.informers.get::<T>()
    }

    /// An object with all its fields as the server has it now, for a PUT: caches hold only what is read. It is
    /// listed under the identity that fills the caches, as a controller may often write what it may not get.
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

    /// The way to write while reconciling `owner`.
    pub fn writer<'a>(&'a self, owner: &'a Key) -> Writer<'a> {
        Writer::new(self, owner)
    }

    /// The way to carry out what is planned for `owner`.
    pub fn executor<'a>(&'a self, owner: &'a Key) -> Executor<'a> {
        Executor::new(self, owner)
    }

    /// Notes what a key, whose object is of this kind, waits for.
    pub(crate) fn note_waiting(&self, owner: &Key, kind: SmolStr, waiting: Vec<Waiting>) {
        self.decisions.note_waiting(self.name, owner, kind, waiting);
    }

    /// Calls `trigger` for every change in a cache, until what is returned is dropped. If it panics, the controller
    /// is set up anew: what it had noted may no longer agree with the cache.
    pub fn subscribe<T: Object>(
        self: &Arc<Self>,
        informer: &Informer<T>,
        trigger: impl Fn(&Change<'_, T>) + Send + Sync + 'static,
    ) -> Subscription {
        let cx = self.clone();
        informer.subscribe(Box::new(move |change| cx.heed(&|| change.key(), || trigger(change))))
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
        informer.subscribe_meta(Box::new(move |change| cx.heed(&|| key(change), || trigger(change))))
    }

    /// Calls a trigger. The informer counts a panic, too, and goes on.
    fn heed(&self, key: &dyn Fn() -> Key, trigger: impl FnOnce()) {
        let call = || {
            if self.sabotage.is_some() {
                self.tempt(Place::Trigger, &key());
            }
            trigger();
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(call)) {
            self.alarm.ring(Place::Trigger, &key(), &*panic);
            resume_unwind(panic);
        }
    }

    /// The moment at which a test may have the controller panic.
    pub(crate) fn tempt(&self, place: Place, what: &dyn Display) {
        if let Some(sabotage) = &self.sabotage {
            sabotage.tempt(self.name, place, what);
        }
    }

    /// Has a decision judged by the controller's invariants, if this process has a judge.
    pub fn judge<V: Verdict>(&self, check: impl FnOnce() -> V) {
        if let Some(judge) = &self.judge {
            judge.note(self.name, check());
        }
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
