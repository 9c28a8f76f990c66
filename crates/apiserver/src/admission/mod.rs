//! Admission: what the server adds to objects, and what it refuses, beyond their kind's own rules. The plugins are
//! upstream's defaults; each can be turned off by its name.

mod certificates;
mod dynamic;
mod limits;
mod namespaces;
mod node_restriction;
mod nodes;
mod pods;
mod quota;
mod scheduling;
mod security;
mod service_account;
mod storage;

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::life::Ops;
use crate::meta;
use crate::registry::Subresource;
use crate::store::Key;
use dynamic::Dynamic;
pub(crate) use dynamic::{Compiler, Expression, Registered, Wanted};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    /// A request that goes on to a pod, such as exec.
    Connect,
}

/// One write in admission.
pub(crate) struct Request<'a> {
    operation: Operation,
    sub: Option<Subresource>,
    group: &'a str,
    plural: &'a str,
}

impl Request<'_> {
    fn creates(&self, group: &str, plural: &str) -> bool {
        self.operation == Operation::Create
            && self.sub.is_none()
            && self.group == group
            && self.plural == plural
    }

    fn updates(&self, group: &str, plural: &str, sub: Option<Subresource>) -> bool {
        self.operation == Operation::Update && self.sub == sub && self.group == group && self.plural == plural
    }
}

/// Refuses a write with a message. An object without a name is called by its generateName.
fn forbid(ops: &Ops<'_>, object: &Value, why: &str) -> ApiError {
    let name = match meta::text(object, "name") {
        "" => meta::text(object, "generateName"),
        name => name,
    };
    ApiError::forbidden(ops.resource.named(name), why)
}

fn enabled(ops: &Ops<'_>, plugin: &str) -> bool {
    !ops.server.options.disabled_admission.contains(plugin)
}

/// Lets plugins, policies and webhooks change an object before its strategy sees it, and before a new one has a generated
/// name and a uid. If one of the latter has changed it, all plugins run once more, and those policies and webhooks that
/// ask for it.
pub(crate) async fn mutate(
    ops: &mut Ops<'_>,
    operation: Operation,
    sub: Option<Subresource>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    plugins_mutate(ops, operation, sub, object, old)?;
    let Some(mut dynamic) = Dynamic::of(ops, operation, sub, old.unwrap_or(object)) else { return Ok(()) };
    dynamic.mutate(object, old).await?;
    if dynamic.begins_again() {
        plugins_mutate(ops, operation, sub, object, old)?;
        dynamic.mutate(object, old).await?;
    }
    Ok(())
}

fn plugins_mutate(
    ops: &Ops<'_>,
    operation: Operation,
    sub: Option<Subresource>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let resource = ops.resource;
    let request = Request { operation, sub, group: &resource.group, plural: &resource.plural };
    if operation == Operation::Create && sub.is_none() {
        namespaces::check_create(ops, object)?;
    }
    if request.creates("", "pods") {
        if enabled(ops, "LimitRanger") {
            limits::set_defaults(ops, object);
        }
        if enabled(ops, "ServiceAccount") {
            service_account::inject(ops, object)?;
        }
        if enabled(ops, "Priority") {
            pods::set_priority(ops, object)?;
        }
        if enabled(ops, "RuntimeClass") {
            pods::set_overhead(ops, object)?;
        }
        if enabled(ops, "PodTopologyLabels") {
            pods::copy_topology(ops, object);
        }
    }
    let key = Key::new(meta::text(object, "namespace"), meta::text(object, "name"));
    node_restriction::check(ops, (operation, sub), &key, object, old)?;
    let pod_spec = request.creates("", "pods") || request.updates("", "pods", None);
    if pod_spec && enabled(ops, "DefaultTolerationSeconds") {
        pods::tolerate(ops, object);
    }
    if request.creates("", "nodes") && enabled(ops, "TaintNodesByCondition") {
        nodes::taint(object);
    }
    storage::mutate(ops, &request, object);
    certificates::check(ops, &request, object, old)
}

/// Lets plugins, policies and webhooks refuse what is about to be stored. Quotas come last, since they count what is
/// accepted.
pub(crate) async fn validate(
    ops: &mut Ops<'_>,
    operation: Operation,
    sub: Option<Subresource>,
    new: Option<&Value>,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let Some(new) = new else { return Ok(()) };
    let resource = ops.resource;
    let request = Request { operation, sub, group: &resource.group, plural: &resource.plural };
    if enabled(ops, "LimitRanger") {
        limits::check(ops, &request, new)?;
    }
    if enabled(ops, "Priority") {
        pods::check_class(ops, &request, new)?;
    }
    if enabled(ops, "PersistentVolumeClaimResize") {
        storage::check_resize(ops, &request, new, old)?;
    }
    if enabled(ops, "PodGroupWorkloadExists") {
        scheduling::check_template(ops, &request, new)?;
    }
    if enabled(ops, "JobValidation") {
        scheduling::check_parallelism(ops, &request, new, old)?;
    }
    if enabled(ops, "PodSecurity") {
        security::check(ops, &request, new, old)?;
    }
    if let Some(dynamic) = Dynamic::of(ops, operation, sub, old.unwrap_or(new)) {
        dynamic.validate(Some(new), old).await?;
    }
    if enabled(ops, "ResourceQuota") && resource.namespaced {
        quota::charge(ops, &request, new, old)?;
    }
    Ok(())
}

/// Lets plugins and webhooks refuse a deletion.
pub(crate) async fn delete(ops: &mut Ops<'_>, old: &Value) -> Result<(), ApiError> {
    namespaces::check_delete(ops, old)?;
    let key = Key::new(meta::text(old, "namespace"), meta::text(old, "name"));
    node_restriction::check(ops, (Operation::Delete, None), &key, old, None)?;
    let Some(mut dynamic) = Dynamic::of(ops, Operation::Delete, None, old) else { return Ok(()) };
    dynamic.refuse_deletion(old).await
}

/// Lets policies and webhooks see a request whose object is not stored: an eviction, a binding, a token, a command. The
/// object gets the kind and the name that it has if it does not say.
pub(crate) async fn pass(
    ops: &mut Ops<'_>,
    (operation, sub): (Operation, Option<Subresource>),
    key: &Key,
    object: &mut Value,
) -> Result<(), ApiError> {
    node_restriction::check(ops, (operation, sub), key, object, None)?;
    let about = json!({"metadata": {"name": key.name, "namespace": key.namespace}});
    let Some(mut dynamic) = Dynamic::of(ops, operation, sub, &about) else { return Ok(()) };
    dynamic.complete(object, key);
    dynamic.mutate(object, None).await?;
    if dynamic.begins_again() {
        dynamic.mutate(object, None).await?;
    }
    dynamic.validate(Some(object), None).await
}
