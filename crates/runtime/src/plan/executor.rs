//! Executes the plans of all controllers: makes writes and records events in the order of the plan, and returns the
//! outcome.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flyball_api::{Key, ObjectMeta, PartialObject, ResourceType, ResourceVersion};
use flyball_client::{Accept, DeleteOptions, Error, Patch, Request, Verb};
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use serde_json::Value;
use smol_str::SmolStr;

use super::event::Event;
use super::outcome::{Answer, Failure, Outcome};
use super::write::{Body, ComputePatch, ComputeUpdate, ErrorKinds, Operation, Write};
use super::{Effect, Group, Order, Plan, Waiting};
use crate::context::Context;
use crate::error::{Retry, SyncError};
use crate::events::{ObjectRef, Recorder};
use crate::tasks::Next;
use crate::writer::Writer;

/// The limit of concurrent requests for one key (or one round). An API server handles 200 writes at once by default, for all
/// clients together (`--max-mutating-requests-inflight`).
const MAX_CONCURRENT: usize = 50;

// The pauses before the retries of a write after conflicts. Their number is the limit of retries.

/// Of `PatchRetryOnConflict`. The first attempt used the cached object, which may be stale, so the first retry is immediate.
const PATCH_PAUSES: [Duration; 4] = [Duration::ZERO, LONG_PAUSE, LONG_PAUSE, LONG_PAUSE];
/// Of `GetThenUpdateRetryOnConflict`.
const GET_THEN_UPDATE_PAUSES: [Duration; 4] = [LONG_PAUSE; 4];
/// Of `UpdateRetryOnConflict`.
const UPDATE_PAUSES: [Duration; 4] = [Duration::from_millis(10); 4];
const LONG_PAUSE: Duration = Duration::from_millis(100);

/// The result of a write: the metadata in the response, if it has any.
type Sent = Result<Option<Box<ObjectMeta>>, RequestError>;

/// Executes what is planned for one key, or in one round of a periodic controller.
pub struct Executor<'a> {
    cx: &'a Context,
    /// The key that is reconciled. `None` in a round of a periodic controller; there, each write is attributed to the object
    /// that it changes.
    key: Option<&'a Key>,
    /// For a round, the key under which its writes are awaited, and the era of the caches that it was planned on.
    round: Option<(&'a Key, u64)>,
    /// Whether a write of the round was not made because the round is outdated.
    was_outdated: AtomicBool,
    /// Whether writes raise the barrier: the key is not synced again before the cache shows what was written for it.
    raises_barrier: bool,
    events: &'a Recorder,
    /// The involved object of events that do not set one.
    about: Option<ObjectRef>,
    /// The resourceVersions in the responses to the writes of this executor, by kind and key.
    versions: Mutex<FxHashMap<(SmolStr, Key), ResourceVersion>>,
}

impl<'a> Executor<'a> {
    pub(crate) fn new(cx: &'a Context, key: &'a Key) -> Self {
        Self {
            cx,
            key: Some(key),
            round: None,
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
            round: Some((round, era)),
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

    /// Executes a whole plan: its effects, then its status, which is written even if effects failed.
    ///
    /// # Errors
    /// The first error, of the effects or else of the status.
    pub async fn execute<T: Send>(&self, plan: Plan<T>) -> Result<Next, SyncError> {
        let next = plan.next();
        let Plan { effects, status, waiting, .. } = plan;
        self.record_waiting(waiting);
        let outcome = self.perform(effects).await.result();
        let written = self.perform(status).await.result();
        outcome.and(written).map(|()| next)
    }

    /// Records what the key is waiting for (`/debug/waiting`), in place of what was recorded before.
    pub fn record_waiting(&self, waiting: Vec<Waiting>) {
        if let Some(key) = self.key {
            let kind = self.about.as_ref().map(|object| object.kind.clone()).unwrap_or_default();
            self.cx.record_waiting(key, kind, waiting);
        }
    }

    /// Executes effects in order. After the first failure, the rest is skipped.
    pub async fn perform<T: Send>(
        &self,
        effects: impl IntoIterator<Item = impl Into<Effect<T>>>,
    ) -> Outcome<T> {
        self.in_order(effects.into_iter().map(Into::into).collect(), Order::Sequence, ErrorKinds::NONE).await
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
            Order::Sequence | Order::Each => self.in_order(effects, order, stop_on).await,
            Order::Concurrent => self.concurrently(effects).await,
            Order::SlowStart => self.slow_start(effects).await,
        };
        match outcome.failure() {
            None => self.record(on_success, "", ""),
            Some(failure) if failure.is_one_of(no_event_for) => {}
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

    /// Whether etcd may have been restored since the round was planned. A round plans writes for many objects: those that are
    /// left would be based on a state that may no longer exist. They are not made; the round is repeated.
    fn is_outdated(&self) -> bool {
        self.round.is_some_and(|(_, era)| self.cx.informers.era() != era || !self.cx.barrier.is_consistent())
    }

    /// Whether writes of the round were left out because it was planned on caches that may be outdated.
    pub(crate) fn was_outdated(&self) -> bool {
        self.was_outdated.load(Ordering::Relaxed)
    }

    async fn write<T: Send>(&self, write: Write<T>) -> Outcome<T> {
        let verb = write.verb();
        if self.is_outdated() {
            self.was_outdated.store(true, Ordering::Relaxed);
            let target =
                Target { resource: &write.resource, key: &write.key, subresource: write.subresource };
            let doing = target.doing(verb);
            // With its tag: the controller's memory may say that this write is on its way.
            return Outcome::failed(Failure {
                tag: Some(write.tag),
                verb: Some(verb),
                doing,
                message: "not made: etcd may have been restored since it was planned".to_owned(),
                error: None,
                retry: Retry::Backoff,
                is_expected: true,
            });
        }
        let Write { resource, key, subresource, operation, attempts, why, ignore, no_event_for, .. } = write;
        let Write { on_success, mut on_failure, failure_prefix, tag, .. } = write;
        let target = Target { resource: &resource, key: &key, subresource };
        let sent = match operation {
            Operation::GetThenDelete { options, unreadable } => match self.read(target).await {
                Ok(found) => self.delete_found(target, options, found, &why).await,
                Err(error) => {
                    on_failure = vec![unreadable];
                    Err(error)
                }
            },
            Operation::Patch(patch) => {
                let is_final = |error: &Error| (ignore | ErrorKinds::OUTCOME_UNKNOWN).contains(error);
                self.patch(target, patch, attempts, is_final, &why).await
            }
            Operation::PatchRetryOnConflict { patch, recompute } => {
                self.patch_retry_on_conflict(target, patch, recompute, &why).await
            }
            Operation::GetThenUpdateRetryOnConflict(edit) => {
                self.get_then_update_retry_on_conflict(target, edit, &why).await
            }
            operation => self.send(target, operation, &why).await,
        };
        match sent {
            Ok(meta) => {
                let name = meta.as_deref().map_or(&key.name, |meta| &meta.name);
                on_success.into_iter().for_each(|event| self.record(event, name, ""));
                Outcome::done(tag, Answer::Written(meta))
            }
            Err(RequestError { error, .. }) if ignore.contains(&error) => {
                Outcome::done(tag, Answer::Ignored(error))
            }
            Err(RequestError { error, is_read }) => {
                if !no_event_for.contains(&error) {
                    on_failure.into_iter().for_each(|event| self.record(event, "", &error.to_string()));
                }
                let message = format!("{}{error}", failure_prefix.unwrap_or_default());
                let doing = target.doing(if is_read { Verb::Get } else { verb });
                Outcome::failed(Failure {
                    tag: Some(tag),
                    verb: Some(verb),
                    doing,
                    message,
                    error: Some(error),
                    retry: Retry::Backoff,
                    is_expected: false,
                })
            }
        }
    }

    async fn read(&self, target: Target<'_>) -> Result<ObjectMeta, RequestError> {
        let request = Request::object(Verb::Get, target.resource, target.key, None).accept(Accept::Metadata);
        let object: PartialObject = self.cx.client.object(request).await.map_err(RequestError::reading)?;
        Ok(object.metadata)
    }

    async fn delete_found(
        &self,
        target: Target<'_>,
        options: DeleteOptions,
        found: ObjectMeta,
        why: &str,
    ) -> Sent {
        let options = DeleteOptions { uid: Some(found.uid.clone()), ..options };
        self.send(target, Operation::Delete(options), why).await.map(|_| Some(Box::new(found)))
    }

    /// Sends a patch until it succeeds, or `is_final` holds for its error, or it was sent `attempts` times.
    async fn patch(
        &self,
        target: Target<'_>,
        patch: Patch,
        attempts: usize,
        is_final: impl Fn(&Error) -> bool + Send,
        why: &str,
    ) -> Sent {
        for _ in 1..attempts {
            match self.send(target, Operation::Patch(patch.clone()), why).await {
                Err(failed) if !is_final(&failed.error) => {}
                answer => return answer,
            }
        }
        self.send(target, Operation::Patch(patch), why).await
    }

    /// Sends a patch. After a conflict, reads the object and computes the patch again, rather than leaving that to the next
    /// sync: other clients may change the object so often that the cache is always slightly stale.
    async fn patch_retry_on_conflict(
        &self,
        target: Target<'_>,
        mut patch: Patch,
        recompute: ComputePatch,
        why: &str,
    ) -> Sent {
        let mut retries = Retries::new(&PATCH_PAUSES);
        loop {
            let sent = self.send(target, Operation::Patch(patch), why).await;
            if !retries.retry(&sent).await {
                return sent;
            }
            let live = self.get(target).await?;
            let undecodable = |source| Error::Decode { what: target.doing(Verb::Patch).into(), source };
            match recompute(&live).map_err(undecodable)? {
                Some(computed) => patch = computed,
                None => return Ok(None),
            }
        }
    }

    /// Reads an object and replaces it. After a conflict, both are repeated.
    async fn get_then_update_retry_on_conflict(
        &self,
        target: Target<'_>,
        edit: ComputeUpdate,
        why: &str,
    ) -> Sent {
        let mut retries = Retries::new(&GET_THEN_UPDATE_PAUSES);
        loop {
            let sent = self.send(target, Operation::GetThenUpdateRetryOnConflict(edit.clone()), why).await;
            if !retries.retry(&sent).await {
                return sent;
            }
        }
    }

    async fn send(&self, target: Target<'_>, operation: Operation, why: &str) -> Sent {
        let Target { resource, key, subresource } = target;
        let writer = self.cx.writer(self.key.unwrap_or(key));
        let writer = match self.round {
            _ if !self.raises_barrier => writer.without_barrier(),
            Some((round, _)) => writer.awaited_by(round),
            None => writer,
        };
        let body = match operation {
            Operation::Create(body) => {
                let created = writer.create(resource, key, body.bytes()?, why).await?;
                return Ok(self.remember_version(target, created));
            }
            Operation::Delete(options) | Operation::GetThenDelete { options, .. } => {
                writer.delete(resource, key, options, why).await?;
                return Ok(None);
            }
            Operation::DeleteCollection(options) => {
                writer.delete_collection(resource, &key.namespace, options, why).await?;
                return Ok(None);
            }
            Operation::Patch(patch) | Operation::PatchRetryOnConflict { patch, .. } => {
                return self.send_patch(&writer, target, patch, why).await;
            }
            Operation::PatchAfterWrite(mut patch) => {
                self.set_last_version(target, &mut patch);
                return self.send_patch(&writer, target, Patch::Merge(patch), why).await;
            }
            Operation::UpdateRetryOnConflict { body, edit } => {
                return self.update_retry_on_conflict(&writer, target, body, &*edit, why).await;
            }
            Operation::Update(body) => body,
            Operation::UpdateAfterWrite(mut body) => {
                self.set_last_version(target, &mut body);
                Body::new(&body)
            }
            Operation::GetThenUpdateRetryOnConflict(edit) => match edit(&self.get(target).await?) {
                Some(whole) => Body::new(&whole),
                None => return Ok(None),
            },
            Operation::GetThenUpdate { version, edit } => {
                let mut whole = self.get(target).await?;
                edit(&mut whole);
                whole["metadata"]["resourceVersion"] = version.to_string().into();
                Body::new(&whole)
            }
        };
        let written = writer.update(resource, key, subresource, body.bytes()?, why).await?;
        Ok(self.remember_version(target, written))
    }

    async fn update_retry_on_conflict(
        &self,
        writer: &Writer<'_>,
        target: Target<'_>,
        mut body: Value,
        edit: &(dyn Fn(&mut Value) + Send + Sync),
        why: &str,
    ) -> Sent {
        let Target { resource, key, subresource } = target;
        let read = || self.cx.client.get_as::<Value>(resource, key, subresource);
        let mut retries = Retries::new(&UPDATE_PAUSES);
        loop {
            edit(&mut body);
            let bytes = Body::new(&body).bytes()?;
            let written = writer.update(resource, key, subresource, bytes, why).await;
            let sent = written.map(metadata).map_err(RequestError::from);
            if retries.retry(&sent).await {
                // If the read fails, the same body is sent again: it ends in another conflict, and so in another retry.
                body = read().await.unwrap_or(body);
                continue;
            }
            return match sent {
                // The write may have been made. If the live object is as `edit` would make it, it was; otherwise the error is
                // returned, and the next sync decides on what it reads then.
                Err(failed) if failed.error.outcome_unknown() => {
                    let Ok(live) = read().await else { return Err(failed) };
                    let mut edited = live.clone();
                    edit(&mut edited);
                    if edited == live { Ok(None) } else { Err(failed) }
                }
                sent => sent,
            };
        }
    }

    async fn get(&self, target: Target<'_>) -> Result<Value, RequestError> {
        self.cx.client.get_dynamic(target.resource, target.key).await.map_err(RequestError::reading)
    }

    async fn send_patch(&self, writer: &Writer<'_>, target: Target<'_>, patch: Patch, why: &str) -> Sent {
        let Target { resource, key, subresource } = target;
        let written = writer.patch(resource, key, subresource, patch, why).await?;
        Ok(self.remember_version(target, written))
    }

    /// For `…AfterWrite` operations of later effects.
    fn remember_version(&self, target: Target<'_>, written: PartialObject) -> Option<Box<ObjectMeta>> {
        self.versions.lock().insert(target.identity(), written.metadata.resource_version);
        metadata(written)
    }

    /// Sets the resourceVersion in a body to the one in the response to the last write of the object.
    fn set_last_version(&self, target: Target<'_>, body: &mut Value) {
        if let Some(version) = self.versions.lock().get(&target.identity()) {
            body["metadata"]["resourceVersion"] = version.to_string().into();
        }
    }

    fn record(&self, event: impl Into<Option<Event>>, name: &str, error: &str) {
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

/// A request failed.
struct RequestError {
    error: Error,
    /// Whether it was a read that the write needs.
    is_read: bool,
}

impl RequestError {
    fn reading(error: Error) -> Self {
        Self { error, is_read: true }
    }
}

impl From<Error> for RequestError {
    fn from(error: Error) -> Self {
        Self { error, is_read: false }
    }
}

/// The retries of a write after conflicts.
struct Retries {
    pauses: std::slice::Iter<'static, Duration>,
}

impl Retries {
    fn new(pauses: &'static [Duration]) -> Self {
        Self { pauses: pauses.iter() }
    }

    /// Whether to retry the write. Pauses before it returns `true`.
    async fn retry(&mut self, sent: &Sent) -> bool {
        let is_conflict = sent.as_ref().is_err_and(|failed| failed.error.is_conflict());
        let Some(pause) = self.pauses.next().filter(|_| is_conflict) else { return false };
        if !pause.is_zero() {
            tokio::time::sleep(*pause).await;
        }
        true
    }
}

fn metadata(object: PartialObject) -> Option<Box<ObjectMeta>> {
    Some(Box::new(object.metadata))
}

#[derive(Clone, Copy)]
struct Target<'a> {
    resource: &'a ResourceType,
    key: &'a Key,
    subresource: Option<&'static str>,
}

impl Target<'_> {
    fn identity(self) -> (SmolStr, Key) {
        (self.resource.kind.clone(), self.key.clone())
    }

    /// What was attempted, such as `deleting Pod ns/a`.
    fn doing(self, verb: Verb) -> String {
        let Self { resource: ResourceType { kind, .. }, key, subresource } = self;
        let doing = match verb {
            Verb::Get => return format!("reading {kind} {key}"),
            Verb::Create => "creating",
            Verb::Patch => "patching",
            Verb::Delete | Verb::DeleteCollection => "deleting",
            _ => "updating",
        };
        match subresource {
            Some(subresource) => format!("{doing} the {subresource} of {kind} {key}"),
            None => format!("{doing} {kind} {key}"),
        }
    }
}
