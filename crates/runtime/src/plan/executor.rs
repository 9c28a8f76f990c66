//! Executes the plans of all controllers: makes writes (`requests.rs`) and records events in the order of the plan, and returns
//! the outcome.

use std::sync::atomic::{AtomicBool, Ordering};

use flyball_api::{Key, ResourceVersion};
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use super::event::Event;
use super::outcome::{Executed, Failure, Outcome};
use super::write::ErrorKinds;
use super::{Effect, Group, Order, Plan, Waiting};
use crate::context::Context;
use crate::error::{Retry, SyncError};
use crate::events::{ObjectRef, Recorder};
use crate::workers::{Next, era_of_sync};

/// The limit of concurrent requests for one key (or one round). An API server handles 200 writes at once by default, for all
/// clients together (`--max-mutating-requests-inflight`).
const MAX_CONCURRENT: usize = 50;

/// Executes what is planned for one key, or in one round of a periodic controller.
pub struct Executor<'a> {
    pub(super) cx: &'a Context,
    /// The key that is reconciled. `None` in a round of a periodic controller; there, each write is attributed to the object
    /// that it changes.
    pub(super) key: Option<&'a Key>,
    /// For a round, the key under which its writes are awaited.
    pub(super) round: Option<&'a Key>,
    /// The era of the caches on which its writes are planned: that in which the sync began, whenever this executor was made.
    pub(super) era: u64,
    /// Whether a write was not made because etcd may have been restored since.
    pub(super) was_outdated: AtomicBool,
    /// Whether writes raise the barrier: the key is not synced again before the cache shows what was written for it.
    pub(super) raises_barrier: bool,
    pub(super) events: &'a Recorder,
    /// The involved object of events that do not set one.
    pub(super) about: Option<ObjectRef>,
    /// The resourceVersions in the responses to the writes of this executor, by kind and key.
    pub(super) versions: Mutex<FxHashMap<(SmolStr, Key), ResourceVersion>>,
}

impl<'a> Executor<'a> {
    pub(crate) fn new(cx: &'a Context, key: &'a Key) -> Self {
        Self {
            cx,
            key: Some(key),
            round: None,
            era: era_of_sync(cx),
            was_outdated: AtomicBool::new(false),
            raises_barrier: true,
            events: &cx.events,
            about: None,
            versions: Mutex::default(),
        }
    }

    /// For one round of a periodic controller, planned on caches of `era`. The barrier keeps no key back, but knows under `round`
    /// which writes the caches have not shown yet.
    pub(crate) fn for_round(cx: &'a Context, round: &'a Key, era: u64) -> Self {
        Self {
            cx,
            key: None,
            round: Some(round),
            era,
            was_outdated: AtomicBool::new(false),
            raises_barrier: true,
            events: &cx.events,
            about: None,
            versions: Mutex::default(),
        }
    }

    /// Raises no barrier. For controllers that read the server, not the cache, before they write again.
    pub fn without_barrier(self) -> Self {
        Self { raises_barrier: false, ..self }
    }

    /// Sets the involved object of events that do not set one.
    pub fn about(self, object: ObjectRef) -> Self {
        Self { about: Some(object), ..self }
    }

    /// Sets the recorder, which determines the source of events.
    pub fn events(self, events: &'a Recorder) -> Self {
        Self { events, ..self }
    }

    /// Executes a whole plan whose outcome decides nothing more: see [`Executor::run`].
    ///
    /// # Errors
    /// The first error, of the effects or else of the status.
    pub async fn execute<T: Send>(&self, plan: Plan<T>) -> Result<Next, SyncError> {
        self.run(plan).await.result()
    }

    /// Executes a whole plan: records what the key waits for, in place of what an earlier plan said, performs the effects, and
    /// then writes the status, even if effects failed.
    pub async fn run<T: Send>(&self, plan: Plan<T>) -> Executed<T> {
        let next = plan.next();
        let Plan { effects, status, requeue: _, waiting } = plan;
        self.record_waiting(waiting);
        let outcome = self.perform(effects).await;
        let status = self.perform(status).await;
        Executed { next, outcome, status }
    }

    /// For `/debug/waiting`.
    pub(super) fn record_waiting(&self, waiting: Vec<Waiting>) {
        if let Some(key) = self.key.or(self.round) {
            let kind = self.about.as_ref().map(|object| object.kind.clone()).unwrap_or_default();
            self.cx.record_waiting(key, kind, waiting);
        }
    }

    /// Executes effects in order. After the first failure, the rest is skipped. For effects without a plan, such as those that
    /// follow from the outcome of one.
    pub async fn perform<T: Send>(
        &self,
        effects: impl IntoIterator<Item = impl Into<Effect<T>>>,
    ) -> Outcome<T> {
        self.in_order(effects.into_iter().map(Into::into).collect(), Order::Sequence, ErrorKinds::NONE).await
    }

    /// Records events without a plan.
    pub fn emit(&self, events: impl IntoIterator<Item = Event>) {
        events.into_iter().for_each(|event| self.record(event, "", ""));
    }

    fn execute_effect<'b, T: Send + 'b>(&'b self, effect: Effect<T>) -> BoxFuture<'b, Outcome<T>> {
        Box::pin(async move {
            match effect {
                Effect::Write(write) => self.write(*write).await,
                Effect::Group(group) => self.group(group).await,
                Effect::Event(event) => {
                    self.record(event, "", "");
                    Outcome::default()
                }
                Effect::Fail(message) => self.fail(message, Retry::Backoff, false),
                Effect::NotYet(message) => self.fail(message, Retry::Backoff, true),
                Effect::Invalid(message) => self.fail(message, Retry::Never, false),
            }
        })
    }

    fn fail<T>(&self, message: String, retry: Retry, is_expected: bool) -> Outcome<T> {
        let doing = match self.key {
            Some(key) => format!("reconciling {key}"),
            None => format!("running a round of {}", self.cx.name),
        };
        Outcome::failed(Failure { tag: None, verb: None, doing, message, error: None, retry, is_expected })
    }

    async fn group<T: Send>(&self, group: Group<T>) -> Outcome<T> {
        let Group { order, effects, on_success, on_failure, no_event_for, stop_on } = group;
        let outcome = match order {
            Order::Sequence => match self.held_sequence(&effects) {
                Some(held) => held,
                None => self.in_order(effects, order, stop_on).await,
            },
            Order::Each => self.in_order(effects, order, stop_on).await,
            Order::Concurrent => self.concurrently(effects).await,
            Order::SlowStart => self.slow_start(effects).await,
        };
        match outcome.failure() {
            None => self.record(on_success, "", ""),
            Some(failure) if failure.is_one_of(no_event_for | ErrorKinds::OUTDATED) => {}
            Some(_) => self.record(on_failure, "", &outcome.message()),
        }
        outcome
    }

    /// Executes effects one after the other. After an error in `stop_on`, and in a sequence after any failure, the rest is
    /// skipped.
    async fn in_order<T: Send>(
        &self,
        effects: Vec<Effect<T>>,
        order: Order,
        stop_on: ErrorKinds,
    ) -> Outcome<T> {
        let mut outcome = Outcome::default();
        for effect in effects {
            outcome.append(self.execute_effect(effect).await);
            let stops = |failure: &Failure<T>| order == Order::Sequence || failure.is_one_of(stop_on);
            if outcome.failures.iter().any(stops)
                || outcome.ignored().any(|(_, error)| stop_on.contains(error))
            {
                break;
            }
        }
        outcome
    }

    async fn concurrently<T: Send>(&self, effects: impl IntoIterator<Item = Effect<T>>) -> Outcome<T> {
        let effects = effects.into_iter().map(|effect| self.execute_effect(effect)).collect::<Vec<_>>();
        let mut outcomes = stream::iter(effects).buffered(MAX_CONCURRENT);
        let mut all = Outcome::default();
        while let Some(outcome) = outcomes.next().await {
            all.append(outcome);
        }
        all
    }

    async fn slow_start<T: Send>(&self, effects: Vec<Effect<T>>) -> Outcome<T> {
        let (mut effects, mut batch) = (effects.into_iter(), 1);
        let mut all = Outcome::default();
        while effects.len() > 0 && all.is_ok() {
            all.append(self.concurrently(effects.by_ref().take(batch)).await);
            batch *= 2;
        }
        all
    }

    /// Whether etcd was restored since its writes were planned: those that are left would be based on a state that may no longer
    /// exist. They are not made, and the sync or the round is repeated. A round has writes for many objects, so for rounds it is
    /// enough that etcd may have been restored.
    pub(super) fn is_outdated(&self) -> bool {
        let is_in_doubt = || self.round.is_some() && !self.cx.barrier.is_consistent();
        self.cx.informers.era() != self.era || is_in_doubt()
    }

    /// Whether writes of the round were left out because it was planned on caches that may be outdated.
    pub(crate) fn was_outdated(&self) -> bool {
        self.was_outdated.load(Ordering::Relaxed)
    }

    pub(super) fn record(&self, event: impl Into<Option<Event>>, name: &str, error: &str) {
        let Some(Event { about, type_, reason, message }) = event.into() else { return };
        match about.as_deref().or(self.about.as_ref()) {
            Some(about) => self.events.record(about, type_, reason, message.fill(name, error), vec![]),
            None => {
                let key = self.key.map(ToString::to_string).unwrap_or_default();
                tracing::error!(controller = self.cx.name, key, %reason, "dropped event: no involved object set")
            }
        }
    }
}
