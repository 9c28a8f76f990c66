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
mod review;
mod validating;
mod webhooks;

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Operation, enabled};
use crate::crd::conversion::converted;
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
    webhooks: Memory,
    /// Whether the object was changed in the first round.
    is_changed: bool,
}

/// New and old object in the version that a policy or a webhook asks for.
struct Shown {
    new: Option<Value>,
    old: Option<Value>,
}

/// Which of the plugins are on.
#[derive(Debug, Clone, Copy)]
struct Plugins {
    mutating_policies: bool,
    mutating_webhooks: bool,
    validating_policies: bool,
    validating_webhooks: bool,
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
        let (by_policies, by_webhooks) = (attributes.is_seen_by_policies(), attributes.is_seen_by_webhooks());
        let on = Plugins {
            mutating_policies: by_policies && enabled(ops, "MutatingAdmissionPolicy"),
            mutating_webhooks: by_webhooks && enabled(ops, "MutatingAdmissionWebhook"),
            validating_policies: by_policies && enabled(ops, "ValidatingAdmissionPolicy"),
            validating_webhooks: by_webhooks && enabled(ops, "ValidatingAdmissionWebhook"),
        };
        Some(Self {
            server: ops.server,
            set,
            attributes,
            notes: Arc::clone(&ops.notes),
            on,
            policies: Memory::default(),
            webhooks: Memory::default(),
            is_changed: false,
        })
    }

    /// Gives an object that a subresource takes the kind and the name that it has.
    pub(crate) fn complete(&self, object: &mut Value, key: &Key) {
        let kind = &self.attributes.kind;
        object["kind"] = json!(kind.kind);
        object["apiVersion"] = json!(crate::resource::join(&kind.group, &kind.version));
        // The options of a connection have no metadata.
        if self.attributes.operation == Operation::Create {
            let metadata = meta::of(object);
            for (field, value) in [("name", key.name.as_str()), ("namespace", key.namespace.as_str())] {
                if !value.is_empty() {
                    metadata.entry(field).or_insert_with(|| json!(value));
                }
            }
        }
    }

    /// Whether everything is to run a second time; asked once.
    pub(crate) fn begins_again(&mut self) -> bool {
        self.policies.again();
        self.webhooks.again();
        std::mem::take(&mut self.is_changed)
    }

    /// Lets mutating policies and webhooks change an object.
    pub(crate) async fn mutate(&mut self, object: &mut Value, old: Option<&Value>) -> Result<(), ApiError> {
        if self.on.mutating_policies && !self.set.mutating.is_empty() {
            self.is_changed |= mutating::mutate(self, object, old).await?;
        }
        if self.on.mutating_webhooks && !self.set.mutating_webhooks.is_empty() {
            self.is_changed |= webhooks::mutate(self, Some(object), old).await?;
        }
        Ok(())
    }

    /// Lets validating policies and webhooks refuse what is about to be stored.
    pub(crate) async fn validate(&self, new: Option<&Value>, old: Option<&Value>) -> Result<(), ApiError> {
        let objects = self.attributes.objects(new, old);
        if self.on.validating_policies {
            validating::judge(self, &objects).await?;
        }
        if self.on.validating_webhooks {
            webhooks::judge(self, &objects).await?;
        }
        Ok(())
    }

    /// Lets webhooks and validating policies refuse a deletion. There is nothing for policies to change.
    pub(crate) async fn refuse_deletion(&mut self, old: &Value) -> Result<(), ApiError> {
        if self.on.mutating_webhooks && !self.set.mutating_webhooks.is_empty() {
            webhooks::mutate(self, None, Some(old)).await?;
        }
        self.validate(None, Some(old)).await
    }

    /// New and old object as a resource shows them.
    async fn shown(&self, objects: &Objects<'_>, by: &Resource) -> Result<Shown, ApiError> {
        Ok(Shown { new: self.version(&objects.new, by).await?, old: self.version(&objects.old, by).await? })
    }

    async fn version(
        &self,
        object: &Option<Cow<'_, Value>>,
        by: &Resource,
    ) -> Result<Option<Value>, ApiError> {
        let Some(object) = object else { return Ok(None) };
        if !self.attributes.has_versions() {
            return Ok(Some(Value::clone(object)));
        }
        let converted = converted(self.server, by, Value::clone(object), &by.api_version()).await?;
        Ok(Some(self.attributes.shown(&converted, by).into_owned()))
    }

    /// The object after `shown`, what a resource showed of it, has been changed.
    async fn taken(&self, object: &Value, shown: Value, by: &Arc<Resource>) -> Result<Value, ApiError> {
        if self.attributes.sub == Some(Subresource::Scale) {
            return Ok(crate::verbs::scaled(&self.attributes.resource, object, &shown));
        }
        if !self.attributes.has_versions() {
            return Ok(shown);
        }
        let user = &self.attributes.user;
        let decoded = Ops::internal(self.server, by, user).decode(shown);
        let decoded = decoded.map_err(|error| ApiError::internal(error.message))?;
        let requested = &self.attributes.resource;
        converted(self.server, requested, decoded, &requested.api_version()).await
    }
}
