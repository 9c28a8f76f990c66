//! Executes the plans of all controllers: makes writes and records events in the order of the plan, and returns the
//! outcome.

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
use super::write::{Body, ComputePatch, ComputeUpdate, Operation, Refusals, Write};
use super::{Effect, Group, Order, Plan, Waiting};
use crate::context::Context;
use crate::error::{Retry, SyncError};
use crate::events::{ObjectRef, Recorder};
use crate::tasks::Next;
use crate::writer::Writer;

/// How many requests one key has in flight. By default, an API server handles 200 writes at once, for all clients.
const AT_ONCE: usize = 50;
/// The pauses before a write is computed again, one for each conflict.
const PATCH_PAUSES: [Duration; 4] = [Duration::ZERO, ONE_PAUSE, ONE_PAUSE, ONE_PAUSE];
const EDIT_PAUSES: [Duration; 4] = [ONE_PAUSE; 4];
const LIVE_EDIT_PAUSES: [Duration; 4] = [Duration::from_millis(10); 4];
const ONE_PAUSE: Duration = Duration::from_millis(100);

/// Executes what is planned for one key, or in one round of a periodic controller.
pub struct Executor<'a> {
    cx: &'a Context,
    /// The key that is reconciled. If `None`, each write is attributed to the object that it changes.
    owner: Option<&'a Key>,
    /// Whether writes raise the barrier of their owner.
    raises_barrier: bool,
    events: &'a Recorder,
    about: Option<ObjectRef>,
    /// The versions of objects that effects have written, by kind and key.
    versions: Mutex<FxHashMap<(SmolStr, Key), ResourceVersion>>,
}

impl<'a> Executor<'a> {
    pub(crate) fn new(cx: &'a Context, owner: &'a Key) -> Self {
        Self {
            cx,
            owner: Some(owner),
            raises_barrier: true,
            events: &cx.events,
            about: None,
            versions: Mutex::default(),
        }
    }

    /// For a periodic controller. It examines all objects in each round, so it needs no barrier.
    pub(crate) fn for_round(cx: &'a Context) -> Self {
        Self {
            cx,
            owner: None,
            raises_barrier: false,
            events: &cx.events,
            about: None,
            versions: Mutex::default(),
        }
    }

    /// Raises no barrier. For controllers that read the server, not the cache, before they write again.
    pub fn without_barrier(self) -> Self {
        Self { raises_barrier: false, ..self }
    }

    /// Sets the object for events that do not name one.
    pub fn about(self, object: ObjectRef) -> Self {
        Self { about: Some(object), ..self }
    }

    /// Sets the recorder, which determines the source of events.
    pub fn events(self, events: &'a Recorder) -> Self {
        Self { events, ..self }
    }

    /// Executes a whole plan: its effects, then its status.
    pub async fn execute<T: Send>(&self, plan: Plan<T>) -> Result<Next, SyncError> {
        let next = plan.next();
        let Plan { effects, status, waiting, .. } = plan;
        self.wait_for(waiting);
        let outcome = self.perform(effects).await.result();
        let written = self.perform(status).await.result();
        outcome.and(written).map(|()| next)
    }

    /// Records what the key is waiting for (`/debug/waiting`), and removes what it was waiting for before.
    pub fn wait_for(&self, waiting: Vec<Waiting>) {
        if let Some(owner) = self.owner {
            let kind = self.about.as_ref().map(|object| object.kind.clone()).unwrap_or_default();
            self.cx.note_waiting(owner, kind, waiting);
        }
    }

    /// Executes effects in order, up to the first failure.
    pub async fn perform<T: Send>(
        &self,
        effects: impl IntoIterator<Item = impl Into<Effect<T>>>,
    ) -> Outcome<T> {
        self.in_order(effects.into_iter().map(Into::into).collect(), Order::Sequence, Refusals::NONE).await
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
        let doing = self
            .owner
            .map_or_else(|| "running a periodic round".to_owned(), |owner| format!("reconciling {owner}"));
        Outcome::failed(Failure { tag: None, verb: None, doing, message, error: None, retry, is_expected })
    }

    async fn group<T: Send>(&self, group: Group<T>) -> Outcome<T> {
        let Group { order, effects, on_success, on_failure, quiet, ends_at } = group;
        let outcome = match order {
            Order::Sequence | Order::Each => self.in_order(effects, order, ends_at).await,
            Order::Concurrent => self.concurrently(effects).await,
            Order::SlowStart => self.slow_start(effects).await,
        };
        match outcome.failure() {
            None => self.record(on_success, "", ""),
            Some(failure) if failure.is_one_of(quiet) => {}
            Some(_) => self.record(on_failure, "", &outcome.message()),
        }
        outcome
    }

    /// Executes effects one after the other, up to a refusal in `ends_at`; a sequence also ends at any other failure.
    async fn in_order<T: Send>(
        &self,
        effects: Vec<Effect<T>>,
        order: Order,
        ends_at: Refusals,
    ) -> Outcome<T> {
        let mut outcome = Outcome::default();
        for effect in effects {
            outcome.append(self.execute_effect(effect).await);
            let is_end = |failure: &Failure<T>| order == Order::Sequence || failure.is_one_of(ends_at);
            if outcome.failures.iter().any(is_end)
                || outcome.refusals().any(|(_, error)| ends_at.contain(error))
            {
                break;
            }
        }
        outcome
    }

    async fn concurrently<T: Send>(&self, effects: impl IntoIterator<Item = Effect<T>>) -> Outcome<T> {
        let effects = effects.into_iter().map(|effect| self.execute_effect(effect)).collect::<Vec<_>>();
        let mut outcomes = stream::iter(effects).buffered(AT_ONCE);
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

    async fn write<T: Send>(&self, write: Write<T>) -> Outcome<T> {
        let verb = write.verb();
        let Write { resource, key, subresource, operation, attempts, why, accept, quiet, .. } = write;
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
                let is_final = |error: &Error| (accept | Refusals::OUTCOME_UNKNOWN).contain(error);
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
            Err(error) if accept.contain(&error) => Outcome::done(tag, Answer::Refused(error)),
            Err(error) => {
                if !quiet.contain(&error) {
                    on_failure.into_iter().for_each(|event| self.record(event, "", &error.to_string()));
                }
                let message = format!("{}{error}", failure_prefix.unwrap_or_default());
                let doing = target.doing(verb);
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

    async fn read(&self, target: Target<'_>) -> Result<ObjectMeta, Error> {
        let request = Request::object(Verb::Get, target.resource, target.key, None).accept(Accept::Metadata);
        let object: PartialObject = self.cx.client.object(request).await?;
        Ok(object.metadata)
    }

    async fn delete_found(
        &self,
        target: Target<'_>,
        options: DeleteOptions,
        found: ObjectMeta,
        why: &str,
    ) -> Result<Option<Box<ObjectMeta>>, Error> {
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
    ) -> Result<Option<Box<ObjectMeta>>, Error> {
        for _ in 1..attempts {
            match self.send(target, Operation::Patch(patch.clone()), why).await {
                Err(error) if !is_final(&error) => {}
                answer => return answer,
            }
        }
        self.send(target, Operation::Patch(patch), why).await
    }

    /// Sends a patch. After a conflict, reads the object and computes the patch again: for an object that other clients
    /// change often, the cache is always slightly stale.
    async fn patch_retry_on_conflict(
        &self,
        target: Target<'_>,
        mut patch: Patch,
        recompute: ComputePatch,
        why: &str,
    ) -> Result<Option<Box<ObjectMeta>>, Error> {
        let mut conflicts = Conflicts::new(&PATCH_PAUSES);
        loop {
            let answer = self.send(target, Operation::Patch(patch), why).await;
            if !conflicts.repeat(is_conflict(&answer)).await {
                return answer;
            }
            let live = self.cx.client.get_dynamic(target.resource, target.key).await?;
            let what = || target.doing(Verb::Patch).into();
            match recompute(&live).map_err(|source| Error::Decode { what: what(), source })? {
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
    ) -> Result<Option<Box<ObjectMeta>>, Error> {
        let mut conflicts = Conflicts::new(&EDIT_PAUSES);
        loop {
            let answer = self.send(target, Operation::GetThenUpdateRetryOnConflict(edit.clone()), why).await;
            if !conflicts.repeat(is_conflict(&answer)).await {
                return answer;
            }
        }
    }

    async fn send(
        &self,
        target: Target<'_>,
        operation: Operation,
        why: &str,
    ) -> Result<Option<Box<ObjectMeta>>, Error> {
        let Target { resource, key, subresource } = target;
        let writer = self.cx.writer(self.owner.unwrap_or(key));
        let writer = if self.raises_barrier { writer } else { writer.without_barrier() };
        let body = match operation {
            Operation::Create(body) => {
                let created = writer.create_body(resource, key, body.bytes()?, why).await?;
                return Ok(self.note_version(target, created));
            }
            Operation::Delete(options) | Operation::GetThenDelete { options, .. } => {
                return writer.delete_dynamic(resource, key, options, why).await.map(|()| None);
            }
            Operation::DeleteCollection(options) => {
                let deleted = writer.delete_collection(resource, &key.namespace, options, why);
                return deleted.await.map(|()| None);
            }
            Operation::Patch(patch) | Operation::PatchRetryOnConflict { patch, .. } => {
                return self.patched(&writer, target, patch, why).await;
            }
            Operation::PatchAfterWrite(mut patch) => {
                self.set_last_version(target, &mut patch);
                return self.patched(&writer, target, Patch::Merge(patch), why).await;
            }
            Operation::UpdateRetryOnConflict { body, edit } => {
                return self.update_retry_on_conflict(&writer, target, body, &*edit, why).await;
            }
            Operation::Update(body) => body,
            Operation::UpdateAfterWrite(mut body) => {
                self.set_last_version(target, &mut body);
                Body::new(&body)
            }
            Operation::GetThenUpdateRetryOnConflict(edit) => {
                match edit(&self.cx.client.get_dynamic(resource, key).await?) {
                    Some(whole) => Body::new(&whole),
                    None => return Ok(None),
                }
            }
            Operation::GetThenUpdate { version, edit } => {
                let mut whole = self.cx.client.get_dynamic(resource, key).await?;
                edit(&mut whole);
                whole["metadata"]["resourceVersion"] = version.to_string().into();
                Body::new(&whole)
            }
        };
        let written = writer.update_body(resource, key, subresource, body.bytes()?, why).await?;
        Ok(self.note_version(target, written))
    }

    async fn update_retry_on_conflict(
        &self,
        writer: &Writer<'_>,
        target: Target<'_>,
        mut body: Value,
        edit: &(dyn Fn(&mut Value) + Send + Sync),
        why: &str,
    ) -> Result<Option<Box<ObjectMeta>>, Error> {
        let Target { resource, key, subresource } = target;
        let read = || self.cx.client.get_as::<Value>(resource, key, subresource);
        let mut conflicts = Conflicts::new(&LIVE_EDIT_PAUSES);
        loop {
            edit(&mut body);
            let bytes = Body::new(&body).bytes()?;
            let answer = writer.update_body(resource, key, subresource, bytes, why).await;
            if conflicts.repeat(is_conflict(&answer)).await {
                body = read().await.unwrap_or(body);
                continue;
            }
            return match answer {
                Err(error) if error.outcome_unknown() => {
                    let Ok(found) = read().await else { return Err(error) };
                    let mut edited = found.clone();
                    edit(&mut edited);
                    if edited == found { Ok(None) } else { Err(error) }
                }
                answer => answer.map(metadata),
            };
        }
    }

    async fn patched(
        &self,
        writer: &Writer<'_>,
        target: Target<'_>,
        patch: Patch,
        why: &str,
    ) -> Result<Option<Box<ObjectMeta>>, Error> {
        let Target { resource, key, subresource } = target;
        let written: PartialObject = writer.patch_dynamic(resource, key, subresource, patch, why).await?;
        Ok(self.note_version(target, written))
    }

    /// Remembers the version that a write has left behind, for later effects on the same object.
    fn note_version(&self, target: Target<'_>, written: PartialObject) -> Option<Box<ObjectMeta>> {
        self.versions.lock().insert(target.identity(), written.metadata.resource_version);
        metadata(written)
    }

    /// Sets the resourceVersion in a body to the one that the last write of the object returned.
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
                tracing::error!(controller = self.cx.name, %reason, "an event of a plan has no object and is dropped")
            }
        }
    }
}

/// How often a write is repeated after conflicts.
struct Conflicts {
    pauses: std::slice::Iter<'static, Duration>,
}

impl Conflicts {
    fn new(pauses: &'static [Duration]) -> Self {
        Self { pauses: pauses.iter() }
    }

    /// Whether to repeat the write, after a pause.
    async fn repeat(&mut self, is_conflict: bool) -> bool {
        let Some(pause) = self.pauses.next().filter(|_| is_conflict) else { return false };
        if !pause.is_zero() {
            tokio::time::sleep(*pause).await;
        }
        true
    }
}

fn is_conflict<T>(answer: &Result<T, Error>) -> bool {
    answer.as_ref().is_err_and(|error| error.is_conflict())
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

    /// What was attempted, for errors.
    fn doing(self, verb: Verb) -> String {
        let Self { resource: ResourceType { kind, .. }, key, subresource } = self;
        let doing = match verb {
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
