//! Validation of the metadata of all kinds.

use serde_json::Value;

use super::names;
use super::text;
use crate::invalid::Cause;
use crate::registry::NameRule;

const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Validates an object's metadata.
pub(crate) fn validate(object: &Value, namespaced: bool, rule: NameRule) -> Vec<Cause> {
    let mut causes = Vec::new();
    let meta = &object["metadata"];
    let name = text(object, "name");
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else {
        let faults = names::check(rule, name);
        causes.extend(faults.iter().map(|fault| Cause::invalid("metadata.name", name, fault)));
    }
    let namespace = text(object, "namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => causes.push(Cause::required("metadata.namespace", "")),
        (true, false) => {
            let faults = names::label(namespace);
            causes.extend(faults.iter().map(|fault| Cause::invalid("metadata.namespace", namespace, fault)));
        }
        (false, false) => {
            causes.push(Cause::forbidden("metadata.namespace", "not allowed on this type"));
        }
        (false, true) => {}
    }
    validate_labels(meta.get("labels"), "metadata.labels", &mut causes);
    validate_annotations(meta.get("annotations"), &mut causes);
    validate_owners(meta.get("ownerReferences"), &mut causes);
    validate_finalizers(meta.get("finalizers"), &mut causes);
    causes
}

/// Validates a change of metadata.
pub(crate) fn validate_update(new: &Value, old: &Value, namespaced: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    let meta = &new["metadata"];
    for field in ["name", "namespace"] {
        let (before, after) = (text(old, field), text(new, field));
        if before != after && (field == "name" || namespaced) {
            causes.push(Cause::invalid(format!("metadata.{field}"), after, "field is immutable"));
        }
    }
    validate_labels(meta.get("labels"), "metadata.labels", &mut causes);
    validate_annotations(meta.get("annotations"), &mut causes);
    validate_owners(meta.get("ownerReferences"), &mut causes);
    if super::is_deleting(old) {
        let before = super::finalizers(old);
        let added: Vec<&str> = super::finalizers(new).into_iter().filter(|f| !before.contains(f)).collect();
        if !added.is_empty() {
            let list = added.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}"
            );
            causes.push(Cause::forbidden("metadata.finalizers", &detail));
        }
    }
    validate_finalizers(meta.get("finalizers"), &mut causes);
    causes
}

fn validate_labels(labels: Option<&Value>, path: &str, causes: &mut Vec<Cause>) {
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        causes
            .extend(names::qualified_name(key).iter().map(|fault| Cause::invalid(path, key.as_str(), fault)));
        let value = value.as_str().unwrap_or_default();
        causes.extend(names::label_value(value).iter().map(|fault| Cause::invalid(path, value, fault)));
    }
}

fn validate_annotations(annotations: Option<&Value>, causes: &mut Vec<Cause>) {
    let mut total = 0;
    for (key, value) in annotations.and_then(Value::as_object).into_iter().flatten() {
        let faults = names::qualified_name(&key.to_lowercase());
        causes.extend(faults.iter().map(|fault| Cause::invalid("metadata.annotations", key.as_str(), fault)));
        total += key.len() + value.as_str().map_or(0, str::len);
    }
    if total > MAX_ANNOTATIONS {
        causes.push(Cause::too_long("metadata.annotations", MAX_ANNOTATIONS));
    }
}

fn validate_owners(owners: Option<&Value>, causes: &mut Vec<Cause>) {
    const PATH: &str = "metadata.ownerReferences";
    let mut controllers: Vec<String> = Vec::new();
    for owner in owners.and_then(Value::as_array).into_iter().flatten() {
        let get = |field: &str| owner[field].as_str().unwrap_or_default();
        if get("apiVersion").rsplit('/').next().is_none_or(str::is_empty) {
            let detail = "version must not be empty";
            causes.push(Cause::invalid(format!("{PATH}.apiVersion"), get("apiVersion"), detail));
        }
        for field in ["kind", "name", "uid"] {
            if get(field).is_empty() {
                causes.push(Cause::invalid(format!("{PATH}.{field}"), "", "must not be empty"));
            }
        }
        if get("apiVersion") == "v1" && get("kind") == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(Cause::invalid(PATH, owner.clone(), detail));
        }
        if owner["controller"].as_bool() == Some(true) {
            controllers.push(format!("{}/{}", get("kind"), get("name")));
        }
    }
    if let [first, second, ..] = &controllers[..] {
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        causes.push(Cause::invalid(PATH, owners.cloned().unwrap_or_default(), &detail));
    }
}

fn validate_finalizers(finalizers: Option<&Value>, causes: &mut Vec<Cause>) {
    let list: Vec<&str> =
        finalizers.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    for name in &list {
        for fault in names::qualified_name(name) {
            causes.push(Cause::invalid("metadata.finalizers", *name, &fault));
        }
    }
    if list.contains(&"orphan") && list.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        causes.push(Cause::invalid("metadata.finalizers", finalizers.cloned().unwrap_or_default(), detail));
    }
}
