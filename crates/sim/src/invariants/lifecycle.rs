//! Rules for garbage collection, namespaces and other cleaners.

use std::sync::Arc;

use flyball_api::{ObjectMeta, OwnerReference};
use flyball_lifecycle::gc::invariants::may_be_collected;
use serde_json::Value;

use super::values::{ensure, has_ended, is_deleting, items, text};
use super::{Rule, ServerState, Write, rule};

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    rule("garbage-collector-controller",                "nothing is deleted that has an existing owner", collected),
    rule("namespace-controller",                        "only in a namespace that is being deleted",     in_going_namespace),
    rule("namespace-controller",                        "a namespace is finalized when it is empty",     empty),
    rule("pod-garbage-collector-controller",            "only pods that no kubelet runs",                no_kubelet_runs),
    rule("podgroup-protection-controller",              "a group keeps its finalizer while it has pods", group_in_use),
    rule("storageversion-garbage-collector-controller", "entries of live servers are kept",              living_servers),
    rule("storage-version-migrator-controller",         "objects are rewritten unchanged",               as_they_are),
];

fn collected(state: &ServerState, write: &Write) -> Result<(), String> {
    if write.verb != "delete" {
        return Ok(());
    }
    let meta = |object: &Value| serde_json::from_value::<ObjectMeta>(object["metadata"].clone());
    let object = meta(&write.before).map_err(|error| error.to_string())?;
    let find = |owner: &OwnerReference| {
        let resource = state.server().inner().catalog.by_kind(&owner.api_version, &owner.kind)?;
        let namespace = if resource.namespaced { write.namespace.as_str() } else { "" };
        let found = state.get(&resource.shelf.group, &resource.shelf.plural, namespace, &owner.name);
        let found = meta(&found).ok()?;
        (found.uid == owner.uid).then_some(found)
    };
    may_be_collected(&object, find)
}

fn in_going_namespace(state: &ServerState, write: &Write) -> Result<(), String> {
    if !matches!(write.verb, "delete" | "deletecollection") || write.namespace.is_empty() {
        return Ok(());
    }
    let namespace = state.get("", "namespaces", "", &write.namespace);
    ensure(is_deleting(&namespace), || format!("namespace {} is to stay", write.namespace))
}

fn empty(state: &ServerState, write: &Write) -> Result<(), String> {
    let has =
        |object: &Value| items(&object["spec"]["finalizers"]).any(|finalizer| finalizer == "kubernetes");
    if !(write.is_on("", "namespaces") && has(&write.before) && !has(&write.after)) {
        return Ok(());
    }
    ensure(is_deleting(&write.before), || "it is to stay".to_owned())?;
    let store = state.server().store();
    for shelf in store.counts().into_keys() {
        let left = store.all(&shelf, Some(&write.name));
        let is_there = left.first().filter(|_| shelf.plural != "events");
        ensure(is_there.is_none(), || {
            format!("{} {} is left", shelf.plural, is_there.map_or("", |entry| entry.key.name.as_str()))
        })?;
    }
    Ok(())
}

fn no_kubelet_runs(state: &ServerState, write: &Write) -> Result<(), String> {
    let pod = &write.before;
    if !write.deletes("", "pods") || has_ended(pod) {
        return Ok(());
    }
    let node = text(&pod["spec"]["nodeName"]);
    let (is_bound, exists) = (!node.is_empty(), !state.get("", "nodes", "", node).is_null());
    let holds = if is_bound { !exists || is_deleting(pod) } else { is_deleting(pod) };
    ensure(holds, || format!("it runs on node {node:?}"))
}

fn group_in_use(state: &ServerState, write: &Write) -> Result<(), String> {
    if !write.drops("scheduling.k8s.io/podgroup-protection") {
        return Ok(());
    }
    let pods = state.list("", "pods", Some(&write.namespace));
    let uses = |pod: &&Arc<Value>| {
        text(&pod["spec"]["schedulingGroup"]["podGroupName"]) == write.name && !has_ended(pod)
    };
    let user = pods.iter().find(uses);
    ensure(user.is_none(), || format!("{} uses it", user.map_or("", |pod| super::values::name(pod))))
}

fn living_servers(state: &ServerState, write: &Write) -> Result<(), String> {
    let entries = |object: &Value| -> Vec<String> {
        let entries = items(&object["status"]["storageVersions"]);
        entries.map(|entry| text(&entry["apiServerID"]).to_owned()).collect()
    };
    let left = entries(&write.after);
    for server in entries(&write.before).into_iter().filter(|server| !left.contains(server)) {
        let lease = state.get("coordination.k8s.io", "leases", "kube-system", &server);
        ensure(lease.is_null(), || format!("{server} lives"))?;
    }
    Ok(())
}

fn as_they_are(_: &ServerState, write: &Write) -> Result<(), String> {
    if write.is_on("storagemigration.k8s.io", "storageversionmigrations") || write.subresource == "status" {
        return Ok(());
    }
    let content = |object: &Value| {
        let mut content = object.clone();
        for field in ["resourceVersion", "managedFields", "generation"] {
            if let Some(metadata) = content["metadata"].as_object_mut() {
                metadata.remove(field);
            }
        }
        content
    };
    let is_same = content(&write.before) == content(&write.after);
    ensure(is_same, || format!("{} became {}", write.before, write.after))
}
