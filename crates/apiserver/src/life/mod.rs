//! The lifecycle of an object: creation, updates, deletion. All writes are made through `Ops`: those of requests, and those that the
//! server makes itself (an eviction, a binding, an allocated address).

mod create;
mod delete;
mod notes;
mod update;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::crd::conversion::converted;
use crate::error::ApiError;
use crate::invalid::Cause;
use crate::kinds::{schema, shape};
use crate::registry::{Cx, Subresource, User};
use crate::resource::Resource;
use crate::server::Inner;
use crate::store::{Entry, Facets, Happened, Key, Refused, Write};

/// The field manager of what the server writes by itself.
pub(crate) const SERVER_MANAGER: &str = "kube-apiserver";

pub(crate) use delete::{DeleteOptions, Deleted};
pub(crate) use notes::Notes;
pub(crate) use update::{Target, Updated};

/// How unknown fields in a request body are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// Everything that a write depends on besides the object.
pub struct Ops<'a> {
    pub server: &'a Inner,
    pub resource: &'a Arc<Resource>,
    pub user: &'a User,
    pub now: Timestamp,
    /// Do everything except storing the object.
    pub dry_run: bool,
    /// The field manager of the request.
    pub manager: &'a str,
    /// How unknown fields are treated.
    pub field_validation: FieldValidation,
    /// Duplicate keys of the request body.
    pub repeated: Vec<String>,
    /// What the request leaves behind besides its answer.
    pub notes: Arc<Notes>,
    /// The options of the request as policies and webhooks see them; `None` for the server's own writes, which they do
    /// not see.
    pub review: Option<Value>,
    /// The last version written, which must be durable before the answer is sent.
    pub written: u64,
    /// Whether this is a server-side apply, which updates `managedFields` itself.
    pub applying: bool,
}

impl<'a> Ops<'a> {
    /// For the server's own writes.
    pub fn internal(server: &'a Inner, resource: &'a Arc<Resource>, user: &'a User) -> Self {
        Self {
            server,
            resource,
            user,
            now: server.now(),
            dry_run: false,
            manager: SERVER_MANAGER,
            field_validation: FieldValidation::Ignore,
            repeated: Vec::new(),
            notes: Arc::default(),
            review: None,
            written: 0,
            applying: false,
        }
    }

    /// The same writer on another resource.
    pub fn on<'b>(&'b self, resource: &'b Arc<Resource>) -> Ops<'b> {
        Ops {
            server: self.server,
            resource,
            user: self.user,
            now: self.now,
            dry_run: self.dry_run,
            manager: self.manager,
            field_validation: FieldValidation::Ignore,
            repeated: Vec::new(),
            notes: Arc::default(),
            review: None,
            written: 0,
            applying: false,
        }
    }

    /// The context of strategies.
    pub fn cx(&self) -> Cx<'_> {
        Cx { now: self.now, user: self.user }
    }

    pub fn get(&self, key: &Key) -> Result<Arc<Entry>, ApiError> {
        self.server
            .store
            .get(&self.resource.shelf, key)
            .ok_or_else(|| ApiError::not_found(self.resource.named(&key.name)))
    }

    /// A stored state in the version of the request.
    pub(crate) async fn current(&self, entry: &Entry) -> Result<Value, ApiError> {
        let version = self.resource.api_version();
        match self.review {
            Some(_) => converted(self.server, self.resource, entry.value(), &version).await,
            None => Ok(entry.value()),
        }
    }

    /// An object in the version in which it is stored.
    async fn for_storage(&self, object: Value) -> Result<Value, ApiError> {
        match self.review {
            Some(_) => converted(self.server, self.resource, object, &self.resource.stored_version).await,
            None => Ok(object),
        }
    }

    /// Reads a request body as an object of this resource, in storage form, with defaults.
    pub fn decode(&mut self, mut object: Value) -> Result<Value, ApiError> {
        let resource = self.resource;
        let expected = resource.api_version();
        if !object.is_object() {
            let found = if object.is_null() { "null" } else { "a value that is not an object" };
            return Err(ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): {found}",
                resource.kind
            )));
        }
        for (field, wanted) in [("kind", resource.kind.as_str()), ("apiVersion", expected.as_str())] {
            match object[field].as_str() {
                None | Some("") => object[field] = json!(wanted),
                Some(found) if found == wanted => {}
                Some(_) => return Err(wrong_kind(resource, &object)),
            }
        }
        self.shape(&mut object)?;
        let mut object = resource.strategy.to_storage(object);
        if let Some(custom) = &resource.custom {
            custom.default(&mut object);
        }
        resource.strategy.default(&mut object);
        if resource.is("apps", "statefulsets")
            && self.server.options.feature_gates.contains("MaxUnavailableStatefulSet")
        {
            default_max_unavailable(&mut object);
        }
        if resource.custom.is_none() && !self.server.options.feature_gates.contains("GenericWorkload") {
            drop_scheduling_groups(&mut object);
        }
        Ok(object)
    }

    /// Removes faults that are none with the feature gates of this server.
    fn allow_by_gates(&self, faults: &mut Vec<Cause>, object: &Value) {
        if self.resource.is("autoscaling", "horizontalpodautoscalers")
            && self.server.options.feature_gates.contains("HPAScaleToZero")
        {
            crate::kinds::autoscaling::allow_zero(faults, object);
        }
        if self.resource.custom.is_none()
            && self.server.options.feature_gates.contains("TaintTolerationComparisonOperators")
        {
            crate::kinds::pod::allow_comparisons(faults, object);
        }
    }

    fn shape(&mut self, object: &mut Value) -> Result<(), ApiError> {
        let unknown = match (self.resource.shape, &self.resource.custom) {
            (Some(kind), _) => shape(schema::builtin(), kind, object).map_err(|wrong| {
                let (kind, version) = (&self.resource.kind, &self.resource.version);
                ApiError::bad_request(format!(
                    "{kind} in version {version:?} cannot be handled as a {kind}: {wrong}"
                ))
            })?,
            (None, Some(custom)) => custom.prune(object),
            (None, None) => Vec::new(),
        };
        let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
        let repeated = std::mem::take(&mut self.repeated);
        let repeated = repeated.iter().map(|path| format!("duplicate field {path:?}"));
        self.report(unknown.chain(repeated).collect())
    }

    /// Reports unknown and duplicate fields as the request's `fieldValidation` requires.
    fn report(&mut self, texts: Vec<String>) -> Result<(), ApiError> {
        if texts.is_empty() {
            return Ok(());
        }
        match self.field_validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => self.notes.warn(texts),
            FieldValidation::Strict => {
                let (kind, version) = (&self.resource.kind, &self.resource.version);
                return Err(ApiError::bad_request(format!(
                    "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {}",
                    texts.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Shapes an object after strategy and admission, as it is stored.
    fn reshape(&self, object: &mut Value) {
        if self.resource.shape.is_some() {
            crate::kinds::reshape(object);
        }
    }

    fn refuse_if(&self, name: &str, causes: &[Cause]) -> Result<(), ApiError> {
        match causes {
            [] => Ok(()),
            causes => Err(ApiError::invalid(self.resource.kind_named(name), causes)),
        }
    }

    /// Stores a state, unless this is a dry run.
    fn put(&mut self, key: &Key, old: Option<&Entry>, object: Value) -> Result<Arc<Entry>, Refused> {
        let facets = self.resource.facets(&object);
        if self.dry_run {
            return self.pretend(key, old, object, facets);
        }
        let expected = old.map(|entry| entry.version);
        let write = Write::Put(object, facets);
        let entry = self.server.store.commit(&self.resource.shelf, key, expected, write)?;
        self.wrote(&entry);
        Ok(entry)
    }

    fn pretend(
        &self,
        key: &Key,
        old: Option<&Entry>,
        object: Value,
        facets: Facets,
    ) -> Result<Arc<Entry>, Refused> {
        if old.is_none() && self.server.store.get(&self.resource.shelf, key).is_some() {
            return Err(Refused::Exists);
        }
        let version = old.map_or(0, |entry| entry.version);
        Ok(Arc::new(Entry::new(version, key.clone(), facets, Happened::Modified, &object)))
    }

    /// Removes an object; `last` is the state that watchers are given.
    fn remove(&mut self, key: &Key, old: &Entry, last: Value) -> Result<(), Refused> {
        if self.dry_run {
            return Ok(());
        }
        let write = Write::Remove(last);
        let entry = self.server.store.commit(&self.resource.shelf, key, Some(old.version), write)?;
        self.wrote(&entry);
        Ok(())
    }

    fn wrote(&mut self, entry: &Arc<Entry>) {
        self.written = self.written.max(entry.version);
        self.server.after_write(self.resource, &entry.key);
    }

    /// Whether an update is one of the object itself, not of a subresource.
    fn is_main(sub: Option<Subresource>) -> bool {
        sub.is_none()
    }
}

/// Completes one of the server's own writes. They wait for nothing, since neither policies nor webhooks see them.
pub(crate) fn at_once<T>(write: impl Future<Output = T>) -> T {
    let mut write = std::pin::pin!(write);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(outcome) = write.as_mut().poll(&mut cx) {
            return outcome;
        }
    }
}

/// Removes the PodGroup from a pod or from a template of pods, as a server without the gate does.
fn drop_scheduling_groups(object: &mut Value) {
    for path in ["/spec", "/spec/template/spec", "/spec/jobTemplate/spec/template/spec", "/template/spec"] {
        if let Some(spec) = object.pointer_mut(path).and_then(Value::as_object_mut) {
            spec.remove("schedulingGroup");
        }
    }
}

/// The default of a rolling update's `maxUnavailable`, where that field is enabled.
fn default_max_unavailable(set: &mut Value) {
    // Indexing would add a null where there is no `rollingUpdate`, which is a change of the spec.
    if let Some(Value::Object(update)) = set.pointer_mut("/spec/updateStrategy/rollingUpdate") {
        update.entry("maxUnavailable").or_insert_with(|| json!(1));
    }
}

fn wrong_kind(resource: &Resource, object: &Value) -> ApiError {
    let kind = object["kind"].as_str().unwrap_or_default();
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let short = version.rsplit('/').next().unwrap_or_default();
    if kind != resource.kind {
        let group =
            if resource.group.is_empty() { "core" } else { resource.group.split('.').next().unwrap_or("") };
        return ApiError::bad_request(format!(
            "{kind} in version {short:?} cannot be handled as a {}: converting ({short}.{kind}) to ({group}.{}): \
             unknown conversion",
            resource.kind, resource.kind
        ));
    }
    ApiError::bad_request(format!(
        "the API version in the data ({version}) does not match the expected API version ({})",
        resource.api_version()
    ))
}
