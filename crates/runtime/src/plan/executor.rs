//! Carries plans out, for all controllers: writes, events, the order of effects, and what came of them.

use std::time::Duration;

use flyball_api::{Key, ObjectMeta, PartialObject, ResourceType, ResourceVersion};
use flyball_client::{Accept, DeleteOptions, Error, Patch, Request, Verb};
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::event::Event;
use super::outcome::{Answer, Failure, Outcome};
use super::write::{Body, Operation, Recompute, Refusals, Write};
use super::{Effect, Group, Order, Plan, Waiting};
use crate::context::Context;
use crate::error::{Retry, SyncError};
use crate::events::{ObjectRef, Recorder};
use crate::tasks::Next;

/// How many requests one key has under way. An API server works on 200 writes at once, for everybody together.
const AT_ONCE: usize = 50;
/// How often a patch is computed again after a conflict, and the pause once a fresh read was not fresh enough.
const CONFLICTS: usize = 4;
const AFTER_CONFLICT: Duration = Duration::from_millis(100);

/// Carries out what is planned for one key, or in one round of a periodic controller.
pub struct Executor<'a> {
    cx: &'a Context,
    /// The key that is reconciled. Without one, each write is made on behalf of the object that it writes.
    owner: Option<&'a Key>,
    /// Whether writes raise the barrier of their owner.
    awaits: bool,
    events: &'a Recorder,
    about: Option<ObjectRef>,
    /// The versions of objects that effects have updated.
    versions: Mutex<FxHashMap<Key, ResourceVersion>>,
}

impl<'a> Executor<'a> {
    pub(crate) fn new(cx: &'a Context, owner: &'a Key) -> Self {
        Self {
            cx,
            owner: Some(owner),
            awaits: true,
            events: &cx.events,
            about: None,
            versions: Mutex::default(),
        }
    }

    /// For a controller without keys, which looks at everything in each round and so needs no barrier.
    pub(crate) fn for_round(cx: &'a Context) -> Self {
        Self { cx, owner: None, awaits: false, events: &cx.events, about: None, versions: Mutex::default() }
    }

    /// Raises no barrier. For controllers that read the server, not the cache, before they write again.
    pub fn unawaited(self) -> Self {
        Self { awaits: false, ..self }
    }

    /// With events about this object.
    pub fn about(self, object: ObjectRef) -> Self {
        Self { about: Some(object), ..self }
    }

    /// With events from this source.
    pub fn events(self, events: &'a Recorder) -> Self {
        Self { events, ..self }
    }

    /// Carries out a whole plan: its effects, then its status.
    pub async fn execute<T: Send>(&self, plan: Plan<T>) -> Result<Next, SyncError> {
        let next = plan.next();
        let Plan { effects, status, waiting, .. } = plan;
        self.wait_for(waiting);
        let outcome = self.perform(effects).await.result();
        let written = self.perform(status).await.result();
        outcome.and(written).map(|()| next)
    }

    /// Notes what the key waits for, instead of what it waited for before.
    pub fn wait_for(&self, waiting: Vec<Waiting>) {
        if let Some(owner) = self.owner {
            let kind = self.about.as_ref().map(|object| object.kind.clone()).unwrap_or_default();
            self.cx.note_waiting(owner, kind, waiting);
        }
    }

    /// Carries out effects in order; the first failure is the last.
    pub async fn perform<T: Send>(
        &self,
        effects: impl IntoIterator<Item = impl Into<Effect<T>>>,
    ) -> Outcome<T> {
        self.in_order(effects.into_iter().map(Into::into).collect(), Order::Sequence, Refusals::NONE).await
    }

    fn one<'b, T: Send + 'b>(&'b self, effect: Effect<T>) -> BoxFuture<'b, Outcome<T>> {
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

    fn fail<T>(&self, message: String, retry: Retry, expected: bool) -> Outcome<T> {
        let doing =
            self.owner.map_or_else(|| "a periodic round".to_owned(), |owner| format!("reconciling {owner}"));
        Outcome::failed(Failure { tag: None, verb: None, doing, message, error: None, retry, expected })
    }

    async fn group<T: Send>(&self, group: Group<T>) -> Outcome<T> {
        let Group { order, effects, on_success, on_failure, quiet, ends_at } = group;
        let outcome = match order {
            Order::Sequence | Order::Each => self.in_order(effects, order, ends_at).await,
            Order::Concurrent => self.side_by_side(effects).await,
            Order::SlowStart => self.slow_start(effects).await,
        };
        match outcome.failure() {
            None => self.record(on_success, "", ""),
            Some(failure) if failure.is_one_of(quiet) => {}
            Some(_) => self.record(on_failure, "", &outcome.message()),
        }
        outcome
    }

    /// One after the other, up to a refusal that ends the group, or in a sequence to any failure.
    async fn in_order<T: Send>(
        &self,
        effects: Vec<Effect<T>>,
        order: Order,
        ends_at: Refusals,
    ) -> Outcome<T> {
        let mut outcome = Outcome::default();
        for effect in effects {
            outcome.append(self.one(effect).await);
            let is_end = |failure: &Failure<T>| order == Order::Sequence || failure.is_one_of(ends_at);
            if outcome.failures.iter().any(is_end)
                || outcome.refusals().any(|(_, error)| ends_at.contain(error))
            {
                break;
            }
        }
        outcome
    }

    async fn side_by_side<T: Send>(&self, effects: impl IntoIterator<Item = Effect<T>>) -> Outcome<T> {
        let effects = effects.into_iter().map(|effect| self.one(effect)).collect::<Vec<_>>();
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
            all.append(self.side_by_side(effects.by_ref().take(batch)).await);
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
            Operation::DeleteLive { options, unreadable } => match self.read(target).await {
                Ok(found) => self.delete_found(target, options, found, &why).await,
                Err(error) => {
                    on_failure = Some(unreadable);
                    Err(error)
                }
            },
            Operation::Patch(patch) => {
                let is_final = |error: &Error| (accept | Refusals::OUTCOME_UNKNOWN).contain(error);
                self.patch(target, patch, attempts, is_final, &why).await
            }
            Operation::PatchLatest { patch, again } => self.patch_latest(target, patch, again, &why).await,
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
                    self.record(on_failure, "", &error.to_string());
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
                    expected: false,
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

    /// Sends a patch until it is taken, or refused for good, or there were so many attempts.
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

    /// Sends a patch. After a conflict, reads the object and computes the patch again: an object that others write often
    /// is always a little newer than the cache.
    async fn patch_latest(
        &self,
        target: Target<'_>,
        mut patch: Patch,
        again: Recompute,
        why: &str,
    ) -> Result<Option<Box<ObjectMeta>>, Error> {
        for conflict in 0..CONFLICTS {
            match self.send(target, Operation::Patch(patch), why).await {
                Err(error) if error.is_conflict() => {}
                answer => return answer,
            }
            if conflict > 0 {
                tokio::time::sleep(AFTER_CONFLICT).await;
            }
            let live = self.cx.client.get_dynamic(target.resource, target.key).await?;
            let what = || target.doing(Verb::Patch).into();
            match again(&live).map_err(|source| Error::Decode { what: what(), source })? {
                Some(computed) => patch = computed,
                None => return Ok(None),
            }
        }
        self.send(target, Operation::Patch(patch), why).await
    }

    async fn send(
        &self,
        target: Target<'_>,
        operation: Operation,
        why: &str,
    ) -> Result<Option<Box<ObjectMeta>>, Error> {
        let Target { resource, key, subresource } = target;
        let writer = self.cx.writer(self.owner.unwrap_or(key));
        let writer = if self.awaits { writer } else { writer.unawaited() };
        let body = match operation {
            Operation::Create(body) => {
                return writer.create_body(resource, key, body.bytes()?, why).await.map(metadata);
            }
            Operation::Delete(options) | Operation::DeleteLive { options, .. } => {
                return writer.delete_dynamic(resource, key, options, why).await.map(|()| None);
            }
            Operation::DeleteCollection(options) => {
                let deleted = writer.delete_collection(resource, &key.namespace, options, why);
                return deleted.await.map(|()| None);
            }
            Operation::Patch(patch) | Operation::PatchLatest { patch, .. } => {
                return writer.patch_dynamic(resource, key, subresource, patch, why).await.map(metadata);
            }
            Operation::Update(body) => body,
            Operation::UpdateAgain(body) => self.over_last_version(key, body),
            Operation::Edit { version, edit } => {
                let mut whole = self.cx.client.get_dynamic(resource, key).await?;
                edit(&mut whole);
                whole["metadata"]["resourceVersion"] = version.to_string().into();
                Body::new(&whole)
            }
        };
        let written = writer.update_body(resource, key, subresource, body.bytes()?, why).await?;
        self.versions.lock().insert(key.clone(), written.metadata.resource_version);
        Ok(metadata(written))
    }

    /// The body with the version that the last update of the object has left behind.
    fn over_last_version(&self, key: &Key, mut body: Value) -> Body {
        if let Some(version) = self.versions.lock().get(key) {
            body["metadata"]["resourceVersion"] = version.to_string().into();
        }
        Body::new(&body)
    }

    fn record(&self, event: impl Into<Option<Event>>, name: &str, error: &str) {
        let Some(Event { about, type_, reason, message }) = event.into() else { return };
        match about.as_deref().or(self.about.as_ref()) {
            Some(about) => self.events.record(about, type_, reason, message.fill(name, error), vec![]),
            None => {
                tracing::error!(controller = self.cx.name, %reason, "a plan has an event about no object")
            }
        }
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
