//! All writes of controllers are made here, for the executor: the client (rate limit, identity), the decision log, metrics, the barrier.

use std::time::Duration;

use bytes::Bytes;
use flyball_api::{Key, Object, ObjectMeta, PartialObject, Resource, ResourceType, ResourceVersion, Uid};
use flyball_client::{
    Accept, CARRIED_OUT_WITHIN, Chain, DeleteOptions, Error, ListParams, Patch, Request, Verb,
};
use serde::Serialize;
use smol_str::{SmolStr, format_smolstr};
use tokio::time::Instant;

use crate::barrier::{Awaited, Before};
use crate::context::Context;
use crate::decisions::{Decision, Outcome, Subject};
use crate::workers::era_of_sync;

/// Writes on behalf of one key of one controller. Every call has a reason, for the decision log.
pub(crate) struct Writer<'a> {
    cx: &'a Context,
    owner: &'a Key,
    /// The key that waits at the barrier until the cache shows the writes; `None` if none does.
    waits: Option<&'a Key>,
    /// The era of the caches on which the writes were decided.
    era: u64,
}

/// An object with its type, serialised directly: through a [`Value`], raw JSON inside it would lose its exact form.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Whole<'a, T> {
    api_version: SmolStr,
    kind: SmolStr,
    #[serde(flatten)]
    object: &'a T,
}

impl<'a, T: Resource> Whole<'a, T> {
    pub(crate) fn of(object: &'a T) -> Self {
        Self { api_version: T::TYPE.api_version(), kind: T::TYPE.kind, object }
    }
}

struct Target<'a> {
    resource: &'a ResourceType,
    key: Key,
    subresource: Option<&'a str>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(cx: &'a Context, owner: &'a Key) -> Self {
        Self { cx, owner, waits: Some(owner), era: era_of_sync(cx) }
    }

    /// The writes were decided on caches of this era.
    pub(crate) fn planned_in(self, era: u64) -> Self {
        Self { era, ..self }
    }

    /// Raises no barrier. For controllers that read the server, not the cache, before they write again.
    pub(crate) fn without_barrier(self) -> Self {
        Self { waits: None, ..self }
    }

    /// The barrier is raised for another key than the owner.
    pub(crate) fn awaited_by(self, key: &'a Key) -> Self {
        Self { waits: Some(key), ..self }
    }

    fn raise(&self, resource: &ResourceType, awaited: Awaited) {
        if let Some(key) = self.waits {
            self.cx.barrier.raise(key, resource, awaited);
        }
    }

    /// The server may carry the write out until then, if not by now.
    fn raise_unknown(&self, resource: &ResourceType, unknown: Awaited, until: Option<Instant>) {
        if let Some(key) = self.waits {
            self.cx.barrier.raise_unknown(key, resource, unknown, until);
        }
    }

    /// Creates an object from the bytes of its JSON. A key whose name ends in `*` stands for a generated name.
    pub(crate) async fn create(
        &self,
        resource: &ResourceType,
        key: &Key,
        body: Bytes,
        why: &str,
    ) -> Result<PartialObject, Error> {
        let namespace = Some(key.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let unknown = match key.name.ends_with('*') {
            true => Awaited::Present(namespace.map(str::to_owned)),
            false => Awaited::UnknownObject(key.clone()),
        };
        let request = Request::collection(Verb::Create, resource, namespace).accept(Accept::Metadata);
        let target = Target { resource, key: key.clone(), subresource: None };
        self.write(Verb::Create, target, why, unknown, self.cx.client.object(request.body(body)), metadata)
            .await
    }

    /// Replaces an object, or one of its subresources, by the bytes of its JSON.
    pub(crate) async fn update(
        &self,
        resource: &ResourceType,
        key: &Key,
        subresource: Option<&str>,
        body: Bytes,
        why: &str,
    ) -> Result<PartialObject, Error> {
        let request = Request::object(Verb::Update, resource, key, subresource).accept(Accept::Metadata);
        let (target, unknown) =
            (Target { resource, key: key.clone(), subresource }, Awaited::UnknownObject(key.clone()));
        self.write(Verb::Update, target, why, unknown, self.cx.client.object(request.body(body)), metadata)
            .await
    }

    /// Changes parts of an object, or of one of its subresources.
    pub(crate) async fn patch(
        &self,
        resource: &ResourceType,
        key: &Key,
        subresource: Option<&str>,
        patch: Patch,
        why: &str,
    ) -> Result<PartialObject, Error> {
        let target = Target { resource, key: key.clone(), subresource };
        let request = Request::patch(resource, key, subresource, &patch).accept(Accept::Metadata);
        let request = self.cx.client.object_with::<PartialObject>(request, patch.document());
        self.write(Verb::Patch, target, why, Awaited::UnknownObject(key.clone()), request, metadata).await
    }

    /// Deletes an object. With a uid in the options, another object of that name is not deleted.
    pub(crate) async fn delete(
        &self,
        resource: &ResourceType,
        key: &Key,
        options: DeleteOptions,
        why: &str,
    ) -> Result<(), Error> {
        let target = Target { resource, key: key.clone(), subresource: None };
        let request = self.cx.client.delete_dynamic(resource, key, &options);
        let unknown = Awaited::UnknownObject(key.clone());
        let deleted = self.write(Verb::Delete, target, why, unknown, request, |_| None).await?;
        // A shadow deletes nothing, so there is nothing to wait for.
        if deleted.meta().is_some_and(|meta| meta.resource_version == ResourceVersion(0)) {
            return Ok(());
        }
        // The response may have no version, so wait until the object leaves the cache.
        if let Some(uid) = options.uid {
            self.raise(resource, Awaited::Gone(key.clone(), uid));
        }
        Ok(())
    }

    /// Has the server delete a pod if its disruption budget allows that.
    pub(crate) async fn evict(
        &self,
        resource: &ResourceType,
        key: &Key,
        uid: &Uid,
        why: &str,
    ) -> Result<(), Error> {
        let eviction = serde_json::json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": key.name, "namespace": key.namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        });
        let request = Request::object(Verb::Create, resource, key, Some("eviction"));
        let request = self.cx.client.send::<serde::de::IgnoredAny>(request.body(eviction.to_string()));
        let target = Target { resource, key: key.clone(), subresource: Some("eviction") };
        let unknown = Awaited::UnknownObject(key.clone());
        self.write(Verb::Create, target, why, unknown, request, |_| None).await?;
        self.raise(resource, Awaited::Gone(key.clone(), uid.clone()));
        Ok(())
    }

    /// Deletes all objects of a resource in a namespace.
    pub(crate) async fn delete_collection(
        &self,
        resource: &ResourceType,
        namespace: &str,
        options: DeleteOptions,
        why: &str,
    ) -> Result<(), Error> {
        let target = Target { resource, key: Key::new(namespace, "*"), subresource: None };
        let (all, unknown) = (ListParams::default(), Awaited::Present(Some(namespace.to_owned())));
        let request = self.cx.client.delete_collection(resource, Some(namespace), &all, &options);
        self.write(Verb::DeleteCollection, target, why, unknown, request, |()| None).await
    }

    /// Sends the request, raises the barrier, and records the decision. The barrier waits for the metadata that `seen` finds
    /// in the response, or for `unknown` if there was no response.
    async fn write<A>(
        &self,
        verb: Verb,
        target: Target<'_>,
        why: &str,
        unknown: Awaited,
        request: impl Future<Output = Result<A, Error>>,
        seen: impl Fn(&A) -> Option<&ObjectMeta>,
    ) -> Result<A, Error> {
        let (cx, started) = (self.cx, Instant::now());
        let what = || format!("{} {} {}", verb.as_str(), target.resource.kind, target.key).into_boxed_str();
        // What it was decided on may no longer exist.
        if cx.informers.era() != self.era {
            return Err(Error::Outdated { what: what() });
        }
        let named = (verb != Verb::Create).then_some(&target.key);
        let before = cx.barrier.before(target.resource, named);
        let pending = PendingWrite::new(self, target.resource, unknown);
        let answer = tokio::select! {
            biased;
            answer = request => answer,
            // It may still wait for the rate limit or for a token, and was planned on a state that no longer exists.
            () = cx.informers.restored_since(self.era) => {
                let source = "etcd was restored before the response arrived".into();
                // The servers that had the request are stopped for a restore.
                Err(Error::OutcomeUnknown { what: what(), source, until: None })
            }
        };
        let unknown = pending.answered();
        let written = answer.as_ref().ok().and_then(seen);
        match (&answer, written) {
            (Ok(_), Some(meta)) => {
                self.raise(target.resource, Awaited::after(target.resource, meta));
                if cx.barrier.shows_restore(target.resource, before.as_ref(), meta.resource_version) {
                    self.raise(target.resource, Awaited::Listed);
                }
            }
            (Ok(_), None) => {}
            (Err(error), _) if error.outcome_unknown() => {
                cx.pending_writes.lost();
                if let Some(unknown) = unknown {
                    self.raise_unknown(target.resource, unknown, error.may_be_carried_out_until());
                }
            }
            (Err(error), _) if lacks(error, &target.key) => {
                // The cache is stale: it showed the object before the request.
                if let Some(uid) = before.and_then(Before::uid) {
                    self.raise(target.resource, Awaited::Vanished(target.key.clone(), uid));
                }
            }
            (Err(_), _) => {}
        }
        let named = written.filter(|_| verb == Verb::Create).map_or(target.key, ObjectMeta::key);
        cx.decide(Decision {
            id: 0,
            time: cx.clock.now(),
            controller: cx.name,
            owner: format_smolstr!("{}", self.owner),
            action: verb.as_str(),
            target: Subject::new(target.resource.kind.clone(), &named),
            subresource: target.subresource.map(SmolStr::new).unwrap_or_default(),
            why: format_smolstr!("{why}"),
            outcome: outcome(answer.as_ref().err()),
            took_ms: started.elapsed(),
        });
        answer
    }
}

/// A write that was sent. If it is dropped before the response, its outcome is unknown, and the barrier has to find out.
struct PendingWrite<'a> {
    writer: &'a Writer<'a>,
    resource: &'a ResourceType,
    unknown: Option<Awaited>,
    since: Instant,
}

/// A server that has not responded for this long when a write is cancelled may not hear of that either. Otherwise it does, and gives up
/// the request.
const UNRESPONSIVE: Duration = Duration::from_secs(5);

impl<'a> PendingWrite<'a> {
    fn new(writer: &'a Writer<'a>, resource: &'a ResourceType, unknown: Awaited) -> Self {
        writer.cx.pending_writes.begin();
        Self { writer, resource, unknown: Some(unknown), since: Instant::now() }
    }

    /// Returns what to wait for if the response does not show the outcome.
    fn answered(mut self) -> Option<Awaited> {
        self.unknown.take()
    }
}

impl Drop for PendingWrite<'_> {
    fn drop(&mut self) {
        if let Some(unknown) = self.unknown.take() {
            self.writer.cx.pending_writes.lost();
            let is_heard = self.since.elapsed() < UNRESPONSIVE;
            let until = (!is_heard).then(|| Instant::now() + CARRIED_OUT_WITHIN);
            self.writer.raise_unknown(self.resource, unknown, until);
        }
        self.writer.cx.pending_writes.end();
    }
}

fn outcome(error: Option<&Error>) -> Outcome {
    match error {
        None => Outcome::Done,
        Some(error) if error.outcome_unknown() => Outcome::Unknown(Chain(error).to_string()),
        Some(error) if error.status().is_some() => Outcome::Refused(Chain(error).to_string()),
        Some(error) => Outcome::NotSent(Chain(error).to_string()),
    }
}

fn metadata<T: Object>(object: &T) -> Option<&ObjectMeta> {
    Some(object.meta())
}

/// Whether the object does not exist, as opposed to the resource.
fn lacks(error: &Error, key: &Key) -> bool {
    error.is_not_found() && error.status().is_some_and(|status| status.details.name == key.name)
}

/// Options to delete exactly this object.
pub fn exactly(meta: &ObjectMeta) -> DeleteOptions {
    DeleteOptions::uid(&meta.uid)
}
