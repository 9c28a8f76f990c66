//! One write of a plan: what to send, why, which errors to ignore, and the events about it.

use std::fmt;
use std::ops::BitOr;
use std::sync::Arc;

use bytes::Bytes;
use flyball_api::pod::Pod;
use flyball_api::{Key, Object as _, Resource, ResourceType, ResourceVersion, Uid, manifest_with_status};
use flyball_client::{DeleteOptions, Error, Patch, Verb};
use serde::Serialize;
use serde_json::Value;
use smol_str::{SmolStr, ToSmolStr};

use super::event::Event;
use crate::writer::Whole;

/// A write to the API server. Of the response, only the metadata is read.
#[derive(Debug)]
pub struct Write<T = ()> {
    pub resource: ResourceType,
    /// The object. For a creation under a generated name, the name is the prefix and a `*`.
    pub key: Key,
    /// The subresource, such as `status`.
    pub subresource: Option<&'static str>,
    pub operation: Operation,
    /// How many times in all a plain patch is sent, without a pause, while it fails. It is not repeated after an error that is
    /// ignored, nor when the outcome is unknown.
    pub attempts: usize,
    /// The reason, for the decision log.
    pub why: SmolStr,
    /// Errors that count as success: no failure, no event, and effects after it are executed.
    pub ignore: ErrorKinds,
    /// Errors that are failures, but for which `on_failure` is not recorded.
    pub no_event_for: ErrorKinds,
    /// Recorded, in this order, when the write succeeds.
    pub on_success: Vec<Event>,
    /// Recorded, in this order, when the write fails.
    pub on_failure: Vec<Event>,
    /// Put before the error in the message of the [`Failure`](super::Failure), not in events.
    pub failure_prefix: Option<String>,
    /// With which the controller finds the write in the [`Outcome`](super::Outcome).
    pub tag: T,
}

/// Computes a patch from the live object; `None` if nothing is left to change.
pub type ComputePatch = Box<dyn Fn(&Value) -> serde_json::Result<Option<Patch>> + Send + Sync>;

/// Computes the whole new object from the live one; `None` if nothing is left to change.
pub type ComputeUpdate = Arc<dyn Fn(&Value) -> Option<Value> + Send + Sync>;

/// Which requests a write sends. In the names:
/// - `GetThen…` reads the object from the server first;
/// - `…RetryOnConflict` reads the object again after a conflict, computes the change again and repeats the write, a few times;
/// - `…AfterWrite` is for an object that an earlier effect of the same plan wrote: the precondition is the resourceVersion that
///   the response to that write had.
pub enum Operation {
    Create(Body),
    /// Replaces the object, or its subresource. The resourceVersion in the body is the precondition.
    Update(Body),
    /// Replaces an object that an earlier effect of the same plan wrote.
    UpdateAfterWrite(Value),
    /// Reads the whole object, edits it, and replaces it if it still has the version that the plan was made with. For objects
    /// of which caches hold only parts.
    GetThenUpdate {
        /// The resourceVersion of the object in the view of the plan.
        version: ResourceVersion,
        edit: Box<dyn FnOnce(&mut Value) + Send + Sync>,
    },
    /// Edits an object, or its subresource, that `sync` has just read from the server, and replaces it. If the outcome is
    /// unknown, the object is read to find out whether the edit was made.
    UpdateRetryOnConflict {
        /// The object as it was read.
        body: Value,
        edit: Box<dyn Fn(&mut Value) + Send + Sync>,
    },
    /// Changes parts of the object.
    Patch(Patch),
    /// Changes parts of the object by a patch that depends on the rest of it.
    PatchRetryOnConflict {
        patch: Patch,
        recompute: ComputePatch,
    },
    /// Reads the whole object and replaces it.
    GetThenUpdateRetryOnConflict(ComputeUpdate),
    /// Sends a merge patch for an object that an earlier effect of the same plan wrote.
    PatchAfterWrite(Value),
    Delete(DeleteOptions),
    /// Has the server delete a pod if its disruption budget allows that.
    Evict(Uid),
    /// Deletes all objects of the resource in the namespace of the key. The name in the key is `*`.
    DeleteCollection(DeleteOptions),
    /// Reads the object and deletes it with its uid as precondition. [`Answer::Written`](super::Answer) has the metadata that
    /// was read.
    GetThenDelete {
        /// The uid is added to these.
        options: DeleteOptions,
        /// Recorded instead of `on_failure` when the object cannot be read.
        unreadable: Event,
    },
}

/// The JSON of an object, in the bytes that are sent. Cheap to clone: a thousand creations from one template share it.
/// An object that does not serialise fails when it is to be sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Body(Result<Bytes, Arc<str>>);

impl Body {
    /// The object as a value.
    pub fn new(object: &Value) -> Self {
        Self(Ok(object.to_string().into()))
    }

    /// The object exactly as it serialises, raw JSON inside it included: on the way through a [`Value`] that would lose
    /// its exact form.
    pub fn exact<T: Resource + Serialize>(object: &T) -> Self {
        let bytes = serde_json::to_vec(&Whole::of(object));
        Self(bytes.map(Bytes::from).map_err(|error| error.to_string().into()))
    }

    /// The object as a value again, for tests.
    pub fn value(&self) -> Value {
        self.0.as_ref().ok().and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default()
    }

    /// What is sent, or why it cannot be.
    pub(super) fn bytes(self) -> Result<Bytes, Error> {
        self.0.map_err(|problem| Error::Invalid {
            what: "encoding an object".into(),
            source: (*problem).into(),
        })
    }
}

impl From<Value> for Body {
    fn from(object: Value) -> Self {
        Self::new(&object)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(bytes) => f.write_str(&String::from_utf8_lossy(bytes)),
            Err(problem) => f.write_str(problem),
        }
    }
}

impl Write {
    /// Creates an object in the namespace of `key`, under its name. A key whose name ends in `*` stands for a name that
    /// the server is to generate.
    pub fn create<R: Resource>(key: Key, body: impl Into<Body>) -> Self {
        Self::new::<R>(key, Operation::Create(body.into()))
    }

    pub fn update<R: Resource>(key: Key, body: impl Into<Body>) -> Self {
        Self::new::<R>(key, Operation::Update(body.into()))
    }

    /// Creates this object, exactly as it serialises.
    pub fn create_exact<R: Resource + Serialize>(object: &R) -> Self {
        Self::create::<R>(object.key(), Body::exact(object))
    }

    /// Replaces an object by this one, exactly as it serialises.
    pub fn replace<R: Resource + Serialize>(object: &R) -> Self {
        Self::update::<R>(object.key(), Body::exact(object))
    }

    /// See [`Operation::UpdateAfterWrite`].
    pub fn update_after_write<R: Resource>(key: Key, body: Value) -> Self {
        Self::new::<R>(key, Operation::UpdateAfterWrite(body))
    }

    /// See [`Operation::GetThenUpdate`].
    pub fn get_then_update<R: Resource>(
        object: &R,
        edit: impl FnOnce(&mut Value) + Send + Sync + 'static,
    ) -> Self {
        let version = object.meta().resource_version;
        Self::new::<R>(object.key(), Operation::GetThenUpdate { version, edit: Box::new(edit) })
    }

    /// See [`Operation::UpdateRetryOnConflict`].
    pub fn update_retry_on_conflict(
        resource: ResourceType,
        key: Key,
        body: Value,
        edit: impl Fn(&mut Value) + Send + Sync + 'static,
    ) -> Self {
        Self::of(resource, key, Operation::UpdateRetryOnConflict { body, edit: Box::new(edit) })
    }

    /// Changes parts of an object.
    pub fn patch<R: Resource>(key: Key, patch: Patch) -> Self {
        Self::new::<R>(key, Operation::Patch(patch))
    }

    /// See [`Operation::GetThenUpdateRetryOnConflict`]. `edit` gets the live object and returns the new one, or `None` if there
    /// is nothing to change.
    pub fn get_then_update_retry_on_conflict<R: Resource>(
        key: Key,
        edit: impl Fn(&Value) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        Self::new::<R>(key, Operation::GetThenUpdateRetryOnConflict(Arc::new(edit)))
    }

    /// See [`Operation::PatchRetryOnConflict`]. `change` computes the patch from the cached object, and after a conflict from the
    /// live one; `None` if there is nothing to change.
    pub fn patch_retry_on_conflict<R: Resource>(
        object: &R,
        change: impl Fn(&R) -> Option<Patch> + Send + Sync + 'static,
    ) -> Option<Self> {
        let patch = change(object)?;
        let recompute = Box::new(move |live: &Value| R::deserialize(live).map(|live| change(&live)));
        Some(Self::new::<R>(object.key(), Operation::PatchRetryOnConflict { patch, recompute }))
    }

    /// See [`Operation::PatchAfterWrite`].
    pub fn patch_after_write<R: Resource>(key: Key, patch: Value) -> Self {
        Self::new::<R>(key, Operation::PatchAfterWrite(patch))
    }

    /// Deletes this object, with its uid as precondition. It is no error if it is gone, or if another object has its name.
    pub fn delete<R: Resource>(object: &R) -> Self {
        Self::delete_with::<R>(object.key(), DeleteOptions::uid(&object.meta().uid))
    }

    /// Deletes the object of this key with these options. It is no error if it is gone.
    pub fn delete_with<R: Resource>(key: Key, options: DeleteOptions) -> Self {
        // With the uid as the only precondition, a conflict means that another object has the name: this one is gone.
        let is_by_uid = options.uid.is_some() && options.resource_version.is_none();
        let ignore =
            if is_by_uid { ErrorKinds::NOT_FOUND | ErrorKinds::CONFLICT } else { ErrorKinds::NOT_FOUND };
        Self::new::<R>(key, Operation::Delete(options)).ignore(ignore)
    }

    /// Evicts this pod: see [`Operation::Evict`]. It is no error if it is gone, or if another pod has its name.
    pub fn evict(pod: &Pod) -> Self {
        let ignore = ErrorKinds::NOT_FOUND | ErrorKinds::CONFLICT;
        let evict = Self::new::<Pod>(pod.key(), Operation::Evict(pod.metadata.uid.clone())).ignore(ignore);
        evict.subresource("eviction")
    }

    /// Deletes all objects of a resource in a namespace.
    pub fn delete_collection(resource: ResourceType, namespace: &str, options: DeleteOptions) -> Self {
        Self::of(resource, Key::new(namespace, "*"), Operation::DeleteCollection(options))
    }

    /// See [`Operation::GetThenDelete`]. If the read fails, also because the object is gone, `unreadable` is recorded.
    pub fn get_then_delete<R: Resource>(key: Key, options: DeleteOptions, unreadable: Event) -> Self {
        Self::new::<R>(key, Operation::GetThenDelete { options, unreadable })
    }

    /// Replaces the status of an object by a PUT with the metadata of the cached object. It is no error if the object is gone.
    pub fn status<R: Resource>(object: &R, status: &impl Serialize) -> Self {
        Self::status_of::<R>(object.key(), manifest_with_status(object, status))
    }

    /// The same with this body.
    pub fn status_of<R: Resource>(key: Key, body: Value) -> Self {
        let write = Self::new::<R>(key, Operation::Update(body.into()));
        Self { subresource: Some("status"), ..write }.ignore(ErrorKinds::NOT_FOUND)
    }

    fn new<R: Resource>(key: Key, operation: Operation) -> Self {
        Self::of(R::TYPE, key, operation)
    }

    /// A write to a resource that is known only at run time.
    pub fn of(resource: ResourceType, key: Key, operation: Operation) -> Self {
        Self {
            resource,
            key,
            subresource: None,
            operation,
            attempts: 1,
            why: SmolStr::default(),
            ignore: ErrorKinds::NONE,
            no_event_for: ErrorKinds::NONE,
            on_success: vec![],
            on_failure: vec![],
            failure_prefix: None,
            tag: (),
        }
    }

    /// Sets the tag, by which the controller finds the write in the [`Outcome`](super::Outcome).
    pub fn tag<T>(self, tag: T) -> Write<T> {
        let Self { resource, key, subresource, operation, attempts, why, ignore, no_event_for, .. } = self;
        let Self { on_success, on_failure, failure_prefix, .. } = self;
        Write {
            resource,
            key,
            subresource,
            operation,
            attempts,
            why,
            ignore,
            no_event_for,
            on_success,
            on_failure,
            failure_prefix,
            tag,
        }
    }
}

impl<T> Write<T> {
    pub fn why(self, why: impl ToSmolStr) -> Self {
        Self { why: why.to_smolstr(), ..self }
    }

    pub fn subresource(self, name: &'static str) -> Self {
        Self { subresource: Some(name), ..self }
    }

    /// Sends a patch up to `attempts` times, while it fails.
    pub fn attempts(self, attempts: usize) -> Self {
        Self { attempts, ..self }
    }

    /// Counts these errors as success, besides those that are ignored already.
    pub fn ignore(self, kinds: ErrorKinds) -> Self {
        Self { ignore: self.ignore | kinds, ..self }
    }

    /// Counts only these errors as success.
    pub fn ignore_only(self, kinds: ErrorKinds) -> Self {
        Self { ignore: kinds, ..self }
    }

    /// Does not record `on_failure` for these errors, which are failures all the same.
    pub fn no_event_for(self, kinds: ErrorKinds) -> Self {
        Self { no_event_for: kinds, ..self }
    }

    /// Records `event` when the write succeeds, after the events that were added before.
    pub fn on_success(mut self, event: impl Into<Option<Event>>) -> Self {
        self.on_success.extend(event.into());
        self
    }

    /// Records `event` when the write fails, after the events that were added before.
    pub fn on_failure(mut self, event: Event) -> Self {
        self.on_failure.push(event);
        self
    }

    /// Puts `prefix` before the error in the message of the failure.
    pub fn failure_prefix(self, prefix: impl Into<String>) -> Self {
        Self { failure_prefix: Some(prefix.into()), ..self }
    }

    /// The verb, as in RBAC.
    pub fn verb(&self) -> Verb {
        match self.operation {
            Operation::Create(_) | Operation::Evict(_) => Verb::Create,
            Operation::Update(_)
            | Operation::UpdateAfterWrite(_)
            | Operation::GetThenUpdate { .. }
            | Operation::GetThenUpdateRetryOnConflict(_)
            | Operation::UpdateRetryOnConflict { .. } => Verb::Update,
            Operation::Patch(_) | Operation::PatchRetryOnConflict { .. } | Operation::PatchAfterWrite(_) => {
                Verb::Patch
            }
            Operation::Delete(_) | Operation::GetThenDelete { .. } => Verb::Delete,
            Operation::DeleteCollection(_) => Verb::DeleteCollection,
        }
    }

    pub(super) fn deletes(&self) -> bool {
        matches!(
            self.operation,
            Operation::Delete(_)
                | Operation::Evict(_)
                | Operation::DeleteCollection(_)
                | Operation::GetThenDelete { .. }
        )
    }

    /// The body as a value, for tests; `None` for an edit and a deletion.
    pub fn body(&self) -> Option<Value> {
        match &self.operation {
            Operation::Create(body) | Operation::Update(body) => Some(body.value()),
            Operation::UpdateAfterWrite(body) | Operation::PatchAfterWrite(body) => Some(body.clone()),
            Operation::UpdateRetryOnConflict { body, edit } => {
                let mut body = body.clone();
                edit(&mut body);
                Some(body)
            }
            Operation::Patch(patch) | Operation::PatchRetryOnConflict { patch, .. } => {
                Some(patch.document().clone())
            }
            Operation::GetThenUpdate { .. }
            | Operation::GetThenUpdateRetryOnConflict(_)
            | Operation::Delete(_)
            | Operation::Evict(_)
            | Operation::DeleteCollection(_)
            | Operation::GetThenDelete { .. } => None,
        }
    }
}

impl<T> fmt::Display for Write<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb(), self.resource.kind)?;
        if let Some(subresource) = self.subresource {
            write!(f, "/{subresource}")?;
        }
        write!(f, " {}: {}", self.key, self.why)?;
        self.on_success.iter().try_for_each(|event| write!(f, "\n  then {event}"))?;
        self.on_failure.iter().try_for_each(|event| write!(f, "\n  else {event}"))
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(body) => write!(f, "Create({body:?})"),
            Self::Update(body) => write!(f, "Update({body:?})"),
            Self::UpdateAfterWrite(body) => write!(f, "UpdateAfterWrite({body})"),
            Self::GetThenUpdate { version, .. } => write!(f, "GetThenUpdate(version {version})"),
            Self::GetThenUpdateRetryOnConflict(_) => write!(f, "GetThenUpdateRetryOnConflict"),
            Self::UpdateRetryOnConflict { body, .. } => write!(f, "UpdateRetryOnConflict({body})"),
            Self::Patch(patch) | Self::PatchRetryOnConflict { patch, .. } => write!(f, "{patch:?}"),
            Self::PatchAfterWrite(patch) => write!(f, "PatchAfterWrite({patch})"),
            Self::Delete(options) => write!(f, "Delete({options:?})"),
            Self::Evict(uid) => write!(f, "Evict({uid})"),
            Self::DeleteCollection(options) => write!(f, "DeleteCollection({options:?})"),
            Self::GetThenDelete { options, .. } => write!(f, "GetThenDelete({options:?})"),
        }
    }
}

/// A set of kinds of errors that a write may end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorKinds(u16);

impl ErrorKinds {
    pub const NONE: Self = Self(0);
    pub const NOT_FOUND: Self = Self(1);
    pub const ALREADY_EXISTS: Self = Self(2);
    /// A precondition (resourceVersion or uid) does not hold.
    pub const CONFLICT: Self = Self(4);
    /// The write was a create in a namespace that is being deleted.
    pub const NAMESPACE_TERMINATING: Self = Self(8);
    pub const INVALID: Self = Self(16);
    /// The response was lost: the write may or may not have been made.
    pub const OUTCOME_UNKNOWN: Self = Self(32);
    /// The resource does not support the verb.
    pub const METHOD_NOT_SUPPORTED: Self = Self(64);
    /// Every error that is a response of the server. For writes that only inform.
    pub const ANSWERED: Self = Self(128);
    /// A disruption budget does not allow the eviction now.
    pub const DISRUPTION_BUDGET: Self = Self(256);
    /// The write was not made, because etcd was restored, or may have been, since it was planned.
    pub const OUTDATED: Self = Self(512);

    fn has(self, one: Self) -> bool {
        self.0 & one.0 != 0
    }

    pub fn contains(self, error: &Error) -> bool {
        (self.has(Self::ANSWERED) && error.code().is_some())
            || (self.has(Self::NOT_FOUND) && error.is_not_found())
            || (self.has(Self::ALREADY_EXISTS) && error.is_already_exists())
            || (self.has(Self::CONFLICT) && error.is_conflict())
            || (self.has(Self::NAMESPACE_TERMINATING) && error.has_cause("NamespaceTerminating"))
            || (self.has(Self::DISRUPTION_BUDGET) && error.has_cause("DisruptionBudget"))
            || (self.has(Self::INVALID) && error.is_invalid())
            || (self.has(Self::OUTCOME_UNKNOWN) && error.outcome_unknown())
            || (self.has(Self::OUTDATED) && error.is_outdated())
            || (self.has(Self::METHOD_NOT_SUPPORTED) && error.is_method_not_supported())
    }
}

impl BitOr for ErrorKinds {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
