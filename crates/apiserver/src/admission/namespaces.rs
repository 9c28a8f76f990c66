//! NamespaceLifecycle: nothing is created in a missing or terminating namespace, and some namespaces cannot be deleted.

use serde_json::{Value, json};

use crate::error::{ApiError, Named};
use crate::life::Ops;
use crate::meta;
use crate::store::{Key, ShelfId};

const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(super) fn check_create(ops: &Ops<'_>, object: &Value) -> Result<(), ApiError> {
    if !ops.resource.namespaced {
        return Ok(());
    }
    let namespace = meta::text(object, "namespace");
    let shelf = ShelfId::new("", "namespaces");
    let Some(entry) = ops.server.store.get(&shelf, &Key::new("", namespace)) else {
        return Err(ApiError::not_found(Named { group: "", what: "namespaces", name: namespace }));
    };
    let found = entry.value();
    if !meta::is_deleting(&found) && found["status"]["phase"] != "Terminating" {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let cause = json!({
        "reason": "NamespaceTerminating", "message": format!("namespace {namespace} is being terminated"),
        "field": "metadata.namespace",
    });
    Err(super::forbid(ops, object, &why).with_cause(cause))
}

pub(super) fn check_delete(ops: &Ops<'_>, old: &Value) -> Result<(), ApiError> {
    let name = meta::text(old, "name");
    if ops.resource.is("", "namespaces") && IMMORTAL.contains(&name) {
        return Err(ApiError::forbidden(ops.resource.named(name), "this namespace may not be deleted"));
    }
    Ok(())
}
