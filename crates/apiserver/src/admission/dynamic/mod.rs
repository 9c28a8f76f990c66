//! Admission that users of the cluster define: policies in CEL, and webhooks.
//!
//! Order of a write: built-in plugins, mutating policies, mutating webhooks; once more, if one of the latter two changed the
//! object; then, on the object as it will be stored, built-in plugins, validating policies, validating webhooks, quotas.

mod attributes;
mod expressions;
mod matching;
mod mutating;
mod params;
mod policy;
mod registered;
mod reinvocation;
mod validating;

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Operation, enabled};
use crate::error::ApiError;
use crate::life::Ops;
use crate::meta;
use crate::registry::Subresource;
use crate::resource::Resource;
use crate::server::Inner;
use crate::store::Key;

use attributes::{Attributes, Objects};
pub(crate) use expressions::{Compiler, Expression, Wanted};
pub(crate) use registered::Registered;
use registered::Set;
use reinvocation::Memory;

/// What policies and webhooks do with one request.
pub(crate) struct Dynamic<'a> {
    server: &'a Inner,
    set: Arc<Set>,
    attributes: Attributes,
    notes: Arc<crate::life::Notes>,
    on: Plugins,
    policies: Memory,
    /// Whether the object was changed in the first round.
    is_changed: bool,
}

/// Which of the plugins are on.
#[derive(Debug, Clone, Copy)]
struct Plugins {
    mutating_policies: bool,
    validating_policies: bool,
}

impl<'a> Dynamic<'a> {
    /// `about` is the object that is written, or what it was. None if no policy and no webhook could concern the request.
    pub(crate) fn of(
        ops: &Ops<'a>,
        operation: Operation,
        sub: Option<Subresource>,
        about: &Value,
    ) -> Option<Self> {
        let review = ops.review.as_ref()?;
        let set = ops.server.registered.current(ops.server);
        if set.is_empty() {
            return None;
        }
        let attributes = Attributes::of(ops, (operation, sub), about, review);
        let on = Plugins {
            mutating_policies: enabled(ops, "MutatingAdmissionPolicy"),
            validating_policies: enabled(ops, "ValidatingAdmissionPolicy"),
        };
        let notes = Arc::clone(&ops.notes);
        let server = ops.server;
        Some(Self { server, set, attributes, notes, on, policies: Memory::default(), is_changed: false })
    }

    /// Gives an object that a subresource takes the kind and the name that it has.
    pub(crate) fn complete(&self, object: &mut Value, key: &Key) {
        let kind = &self.attributes.kind;
        object["kind"] = json!(kind.kind);
        object["apiVersion"] = json!(crate::resource::join(&kind.group, &kind.version));
        // The options of a connection have no metadata.
        if self.attributes.operation == Operation::Create {
            let metadata = meta::of(object);
            metadata.entry("name").or_insert_with(|| json!(key.name));
            metadata.entry("namespace").or_insert_with(|| json!(key.namespace));
        }
    }

    /// Whether the plugins are to run a second time; asked once.
    pub(crate) fn begins_again(&mut self) -> bool {
        self.policies.again();
        std::mem::take(&mut self.is_changed)
    }

    /// Lets mutating policies and webhooks change an object.
    pub(crate) async fn mutate(&mut self, object: &mut Value, old: Option<&Value>) -> Result<(), ApiError> {
        if self.on.mutating_policies && self.attributes.is_seen_by_policies() && !self.set.mutating.is_empty() {
            self.is_changed |= mutating::mutate(self, object, old)?;
        }
        Ok(())
    }

    /// Lets validating policies and webhooks refuse what is about to be stored.
    pub(crate) async fn validate(&self, new: Option<&Value>, old: Option<&Value>) -> Result<(), ApiError> {
        let objects = self.attributes.objects(new, old);
        self.judge(&objects)
    }

    /// Lets webhooks and validating policies refuse a deletion.
    pub(crate) async fn refuse_deletion(&mut self, old: &Value) -> Result<(), ApiError> {
        let objects = self.attributes.objects(None, Some(old));
        self.judge(&objects)
    }

    /// The object after `shown`, what a resource showed of it, has been changed.
    fn taken(&self, object: &Value, shown: Value, by: &Arc<Resource>) -> Result<Value, ApiError> {
        if self.attributes.sub == Some(Subresource::Scale) {
            return Ok(crate::verbs::scaled(&self.attributes.resource, object, &shown));
        }
        if !self.attributes.has_versions() {
            return Ok(shown);
        }
        let user = &self.attributes.user;
        Ops::internal(self.server, by, user).decode(shown).map_err(|error| ApiError::internal(error.message))
    }

    fn judge(&self, objects: &Objects<'_>) -> Result<(), ApiError> {
        if self.on.validating_policies && self.attributes.is_seen_by_policies() {
            validating::judge(self, objects)?;
        }
        Ok(())
    }
}
