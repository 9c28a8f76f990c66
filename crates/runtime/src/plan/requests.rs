//! Makes the requests of one write: reads before it where the write needs that, retries after conflicts.

use std::sync::atomic::Ordering;
use std::time::Duration;

use flyball_api::{Key, ObjectMeta, PartialObject, ResourceType};
use flyball_client::{Accept, DeleteOptions, Encoding, Error, Patch, Request, Verb};
use serde_json::Value;
use smol_str::SmolStr;

use super::executor::Executor;
use super::outcome::{Answer, Failure, Outcome};
use super::write::{Body, ComputePatch, ComputeUpdate, ErrorKinds, Operation, Write};
use super::{Effect, Waiting};
use crate::decisions::Subject;
use crate::error::Retry;
use crate::guard::Deletion;
use crate::writer::Writer;

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

impl Executor<'_> {
    pub(super) async fn write<T: Send>(&self, write: Write<T>) -> Outcome<T> {
        let verb = write.verb();
        let unsent = self.forbids(&write);
        let Write { resource, key, subresource, operation, attempts, why, ignore, no_event_for, .. } = write;
        let Write { on_success, mut on_failure, failure_prefix, tag, .. } = write;
        let target = Target { resource: &resource, key: &key, subresource };
        let sent = match (unsent, operation) {
            (Some(error), _) => Err(error.into()),
            (None, Operation::GetThenDelete { options, unreadable }) => match self.read(target).await {
                Ok(found) => self.delete_found(target, options, found, &why).await,
                Err(error) => {
                    on_failure = vec![unreadable];
                    Err(error)
                }
            },
            (None, Operation::Patch(patch)) => {
                let is_final = |error: &Error| (ignore | ErrorKinds::OUTCOME_UNKNOWN).contains(error);
                self.patch(target, patch, attempts, is_final, &why).await
            }
            (None, Operation::PatchRetryOnConflict { patch, recompute }) => {
                self.patch_retry_on_conflict(target, patch, recompute, &why).await
            }
            (None, Operation::GetThenUpdateRetryOnConflict(edit)) => {
                self.get_then_update_retry_on_conflict(target, edit, &why).await
            }
            (None, operation) => self.send(target, operation, &why).await,
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
            Err(RequestError { error, .. }) if error.is_outdated() || error.is_held() => {
                let message = match &error {
                    Error::Held { why, .. } => format!("held: {why}"),
                    _ => "not made: etcd may have been restored since it was planned".to_owned(),
                };
                self.was_outdated.fetch_or(error.is_outdated(), Ordering::Relaxed);
                // With its tag: the controller's memory may say that this write is on its way.
                Outcome::failed(Failure {
                    tag: Some(tag),
                    verb: Some(verb),
                    doing: target.doing(verb),
                    message,
                    error: Some(error),
                    retry: Retry::Backoff,
                    is_expected: true,
                })
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

    /// The error of a write that is not to be sent now.
    fn forbids<T>(&self, write: &Write<T>) -> Option<Error> {
        let target = Target { resource: &write.resource, key: &write.key, subresource: write.subresource };
        let what = || target.doing(write.verb()).into();
        if self.is_outdated() {
            return Some(Error::Outdated { what: what() });
        }
        self.refusal(write).map(|why| Error::Held { what: what(), why: why.into() })
    }

    /// Why the budget for deletions forbids this write. What is said there is what the key waits for.
    fn refusal<T>(&self, write: &Write<T>) -> Option<String> {
        let guard = self.cx.guard.as_ref()?;
        if !write.deletes() {
            return None;
        }
        let (controller, resource, key) = (self.cx.name, &write.resource, &write.key);
        let refusal = guard.refusal(&Deletion { controller, resource, key })?;
        let object = Subject::new(resource.kind.clone(), key);
        self.record_waiting(vec![Waiting::Object { object, until: refusal.clone().into() }]);
        Some(refusal)
    }

    /// The failure of a sequence that ends in a deletion of a controller that is held: what prepares a deletion, such as a mark on a
    /// pod, is not done without it.
    pub(super) fn held_sequence<T>(&self, effects: &[Effect<T>]) -> Option<Outcome<T>> {
        self.cx.guard.as_ref().filter(|guard| guard.is_held(self.cx.name))?;
        let writes = effects.iter().filter_map(|effect| match effect {
            Effect::Write(write) => Some(&**write),
            _ => None,
        });
        let deletion = writes.into_iter().find(|write| write.deletes())?;
        Some(Outcome::failed(held(deletion, self.refusal(deletion)?)))
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
            let undecodable = |source| Error::Decode {
                what: target.doing(Verb::Patch).into(),
                encoding: Encoding::Json,
                source,
            };
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
        let writer = self.cx.writer(self.key.unwrap_or(key)).planned_in(self.era);
        let writer = match self.round {
            _ if !self.raises_barrier => writer.without_barrier(),
            Some(round) => writer.awaited_by(round),
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
            Operation::Evict(uid) => {
                writer.evict(resource, key, &uid, why).await?;
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

/// A write that the budget for deletions forbids.
fn held<T, U>(write: &Write<T>, refusal: String) -> Failure<U> {
    let target = Target { resource: &write.resource, key: &write.key, subresource: write.subresource };
    let doing = target.doing(write.verb());
    Failure {
        tag: None,
        verb: Some(write.verb()),
        message: format!("held: {refusal}"),
        error: Some(Error::Held { what: doing.as_str().into(), why: refusal.into() }),
        doing,
        retry: Retry::Backoff,
        is_expected: true,
    }
}
