//! The lifecycle of an object: creation, updates, deletion. All writes are made through `Ops`: those of requests, and those that the
//! server makes itself (an eviction, a binding, an allocated address).

mod create;
mod decode;
mod delete;
mod notes;
mod update;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use jiff::Timestamp;
use serde_json::Value;

use crate::crd::conversion::converted;
use crate::error::ApiError;
use crate::invalid::Cause;
use crate::registry::{Cx, Subresource, User};
use crate::resource::Resource;
use crate::server::Inner;
use crate::store::{Entry, Facets, Happened, Key, Refused, Write};

/// The field manager of what the server writes by itself.
pub(crate) const SERVER_MANAGER: &str = "kube-apiserver";

pub(crate) use decode::FieldValidation;
pub(crate) use delete::{DeleteOptions, Deleted};
pub(crate) use notes::Notes;
pub(crate) use update::{Target, Updated};

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
        let Self { now, dry_run, manager, .. } = *self;
        Ops { now, dry_run, manager, ..Ops::internal(self.server, resource, self.user) }
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
