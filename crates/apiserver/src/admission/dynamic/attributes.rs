//! One request as policies and webhooks see it: what it is about, and its objects in the version that they ask for.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};
use smol_str::SmolStr;

use super::super::Operation;
use crate::error::{ApiError, Named};
use crate::life::Ops;
use crate::meta;
use crate::registry::{Subresource, User};
use crate::resource::Resource;

const REGISTRATION: &str = "admissionregistration.k8s.io";

/// The kind of an object with its group and version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) group: SmolStr,
    pub(super) version: SmolStr,
    pub(super) kind: SmolStr,
}

impl Kind {
    fn new(group: &'static str, version: &'static str, kind: &'static str) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// The kind of the objects that a request to a resource, or to a subresource of it, carries.
    pub(super) fn of(resource: &Resource, sub: Option<Subresource>) -> Self {
        match sub {
            Some(Subresource::Scale) => Self::new("autoscaling", "v1", "Scale"),
            Some(Subresource::Eviction) => Self::new("policy", "v1", "Eviction"),
            Some(Subresource::Binding) => Self::new("", "v1", "Binding"),
            Some(Subresource::Token) => Self::new("authentication.k8s.io", "v1", "TokenRequest"),
            Some(Subresource::Exec) => Self::new("", "v1", "PodExecOptions"),
            Some(Subresource::Attach) => Self::new("", "v1", "PodAttachOptions"),
            Some(Subresource::PortForward) => Self::new("", "v1", "PodPortForwardOptions"),
            Some(Subresource::Proxy) => {
                Self { kind: format!("{}ProxyOptions", resource.kind).into(), ..Self::new("", "v1", "") }
            }
            _ => Self {
                group: resource.group.clone(),
                version: resource.version.clone(),
                kind: resource.kind.clone(),
            },
        }
    }

    fn json(&self) -> Value {
        json!({"group": self.group, "version": self.version, "kind": self.kind})
    }
}

/// What a request is about.
pub(super) struct Attributes {
    pub(super) operation: Operation,
    pub(super) resource: Arc<Resource>,
    pub(super) sub: Option<Subresource>,
    pub(super) kind: Kind,
    /// Of a Namespace, its own name.
    pub(super) namespace: String,
    /// The name in the request; empty if the server is to generate one.
    name: String,
    pub(super) user: User,
    pub(super) dry_run: bool,
    options: Value,
}

impl Attributes {
    /// `about` is the object that is written, or what it was; `review` are the options of the request.
    pub(super) fn of(
        ops: &Ops<'_>,
        (operation, sub): (Operation, Option<Subresource>),
        about: &Value,
        review: &Value,
    ) -> Self {
        let name = meta::text(about, "name").to_owned();
        let namespace = match ops.resource.is("", "namespaces") {
            true => name.clone(),
            false => meta::text(about, "namespace").to_owned(),
        };
        Self {
            operation,
            resource: Arc::clone(ops.resource),
            sub,
            kind: Kind::of(ops.resource, sub),
            namespace,
            name,
            user: ops.user.clone(),
            dry_run: ops.dry_run,
            options: options(operation, review),
        }
    }

    /// Policies do not see themselves, nor reviews of access, without which the cluster would not work.
    pub(super) fn is_seen_by_policies(&self) -> bool {
        const POLICIES: [&str; 4] = [
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
        ];
        let Resource { group, plural, .. } = &*self.resource;
        let is_review = ["authentication.k8s.io", "authorization.k8s.io"].contains(&group.as_str());
        let is_policy = group == REGISTRATION && POLICIES.contains(&plural.as_str());
        !is_policy && !is_review
    }

    /// Webhooks do not see what configures admission.
    pub(super) fn is_seen_by_webhooks(&self) -> bool {
        self.resource.group != REGISTRATION
    }

    /// The name of the object, also of one that has just been named.
    fn name_of(&self, new: Option<&Value>) -> String {
        match (self.name.as_str(), new) {
            ("", Some(new)) => meta::text(new, "name").to_owned(),
            (name, _) => name.to_owned(),
        }
    }

    /// The objects of the request.
    pub(super) fn objects<'a>(&self, new: Option<&'a Value>, old: Option<&'a Value>) -> Objects<'a> {
        let shown = |object: Option<&'a Value>| {
            object.map(|object| match self.sub {
                Some(Subresource::Scale) => Cow::Owned(crate::verbs::scale_of(&self.resource, object)),
                _ => Cow::Borrowed(object),
            })
        };
        Objects { name: self.name_of(new), new: shown(new), old: shown(old) }
    }

    /// The segment of the subresource; empty if there is none.
    pub(super) fn segment(&self) -> &'static str {
        self.sub.map_or("", Subresource::segment)
    }

    /// Whether the objects have versions that they can be converted to.
    pub(super) fn has_versions(&self) -> bool {
        self.kind == Kind::of(&self.resource, None)
    }

    /// An object as a resource shows it that stores the same objects.
    pub(super) fn shown<'a>(&self, object: &'a Value, resource: &Resource) -> Cow<'a, Value> {
        match self.has_versions() && resource.converts() {
            true => Cow::Owned(resource.strategy.serve(object.clone())),
            false => Cow::Borrowed(object),
        }
    }

    pub(super) fn operation_text(&self) -> &'static str {
        match self.operation {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }

    /// The request without its objects, as `AdmissionReview` has it and expressions see it.
    pub(super) fn request(&self, objects: &Objects<'_>, matched: &Resource) -> Value {
        let gvr = |resource: &Resource| json!({"group": resource.group, "version": resource.version, "resource": resource.plural});
        let mut request = json!({
            "uid": "", "kind": Kind::of(matched, self.sub).json(), "resource": gvr(matched),
            "requestKind": self.kind.json(), "requestResource": gvr(&self.resource),
            "operation": self.operation_text(), "userInfo": user_info(&self.user),
            "object": null, "oldObject": null, "dryRun": self.dry_run, "options": self.options,
        });
        let segment = self.segment();
        for (field, value) in [
            ("subResource", segment),
            ("requestSubResource", segment),
            ("name", objects.name.as_str()),
            ("namespace", self.namespace.as_str()),
        ] {
            if !value.is_empty() {
                request[field] = json!(value);
            }
        }
        request
    }

    /// A refusal of the request with an explanation.
    pub(super) fn forbidden(&self, objects: &Objects<'_>, why: &str) -> ApiError {
        let given = objects.new.as_deref().map_or("", |new| meta::text(new, "generateName"));
        let name = [objects.name.as_str(), given].into_iter().find(|name| !name.is_empty());
        let Resource { group, plural, .. } = &*self.resource;
        ApiError::forbidden(Named { group, what: plural, name: name.unwrap_or("Unknown") }, why)
    }
}

/// The objects of a request, in the form in which they are stored.
pub(super) struct Objects<'a> {
    pub(super) name: String,
    pub(super) new: Option<Cow<'a, Value>>,
    pub(super) old: Option<Cow<'a, Value>>,
}

fn options(operation: Operation, review: &Value) -> Value {
    let kind = match operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete => "DeleteOptions",
        Operation::Connect => return Value::Null,
    };
    let mut options = review.clone();
    options["kind"] = json!(kind);
    options["apiVersion"] = json!("meta.k8s.io/v1");
    options
}

fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name});
    if !user.uid.is_empty() {
        info["uid"] = json!(user.uid);
    }
    if !user.groups.is_empty() {
        info["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}
