//! Rules for the node controllers.

use std::sync::Arc;

use ipnet::IpNet;
use serde_json::Value;

use super::values::{condition, ensure, items, name, text, uid};
use super::{Rule, ServerState, Write, rule};

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    rule("node-ipam-controller",      "no address belongs to two nodes",          ranges),
    rule("node-ipam-controller",      "a node keeps its pod CIDRs",               kept),
    rule("node-lifecycle-controller", "no taint on a node that was always ready", driven),
    rule("node-lifecycle-controller", "never both not-ready and unreachable",     one_reason),
    rule("taint-eviction-controller", "only pods that do not tolerate a taint",   evicted),
    rule("ttl-controller",            "only its annotation",                      only_annotation),
];

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const LOST: &str = "node.kubernetes.io/unreachable";

fn given(node: &Value) -> Vec<IpNet> {
    items(&node["spec"]["podCIDRs"]).filter_map(|range| text(range).parse().ok()).collect()
}

fn ranges(state: &ServerState, write: &Write) -> Result<(), String> {
    let own = given(&write.after);
    if !write.changes("", "nodes") || own.is_empty() {
        return Ok(());
    }
    for other in state.list("", "nodes", None).iter().filter(|other| uid(other) != uid(&write.after)) {
        let overlaps = |one: &IpNet, two: &IpNet| one.contains(two) || two.contains(one);
        let shared = given(other).into_iter().find(|range| own.iter().any(|mine| overlaps(mine, range)));
        ensure(shared.is_none(), || format!("{} has {shared:?}, too", name(other)))?;
    }
    Ok(())
}

fn kept(_: &ServerState, write: &Write) -> Result<(), String> {
    let (before, after) = (given(&write.before), given(&write.after));
    let holds = !write.changes("", "nodes") || before.is_empty() || before == after;
    ensure(holds, || format!("{before:?} became {after:?}"))
}

fn has_taint(node: &Value, key: &str) -> bool {
    items(&node["spec"]["taints"]).any(|taint| taint["key"] == key && taint["effect"] == "NoExecute")
}

fn driven(state: &ServerState, write: &Write) -> Result<(), String> {
    let is_driven = |node: &Value| has_taint(node, NOT_READY) || has_taint(node, LOST);
    if !write.changes("", "nodes") || is_driven(&write.before) || !is_driven(&write.after) {
        return Ok(());
    }
    let was_unwell =
        |node: &Arc<Value>| condition(node, "Ready").is_none_or(|ready| ready["status"] != "True");
    let holds = state.versions("", "nodes", uid(&write.after)).iter().any(was_unwell);
    ensure(holds, || "it was always ready".to_owned())
}

fn one_reason(_: &ServerState, write: &Write) -> Result<(), String> {
    let holds =
        !(write.changes("", "nodes") && has_taint(&write.after, NOT_READY) && has_taint(&write.after, LOST));
    ensure(holds, || write.after["spec"]["taints"].to_string())
}

fn bears(pod: &Value, taint: &Value) -> bool {
    items(&pod["spec"]["tolerations"]).any(|toleration| {
        let fits = |field: &str| {
            toleration[field].is_null() || toleration[field] == "" || toleration[field] == taint[field]
        };
        let is_equal =
            toleration["operator"] == "Exists" || text(&toleration["value"]) == text(&taint["value"]);
        fits("effect") && fits("key") && is_equal && toleration["tolerationSeconds"].is_null()
    })
}

fn evicted(state: &ServerState, write: &Write) -> Result<(), String> {
    if !write.deletes("", "pods") {
        return Ok(());
    }
    let pod = &write.before;
    let node = text(&pod["spec"]["nodeName"]);
    let nodes = state.versions_named("", "nodes", "", node);
    let drives = |node: &Arc<Value>| {
        let mut taints = items(&node["spec"]["taints"]).filter(|taint| taint["effect"] == "NoExecute");
        taints.any(|taint| !bears(pod, taint))
    };
    ensure(nodes.iter().any(drives), || format!("node {node} never had a taint that it does not bear"))
}

fn only_annotation(_: &ServerState, write: &Write) -> Result<(), String> {
    let content = |node: &Value| {
        let mut node = node.clone();
        for field in ["resourceVersion", "managedFields"] {
            if let Some(metadata) = node["metadata"].as_object_mut() {
                metadata.remove(field);
            }
        }
        if let Some(annotations) = node["metadata"]["annotations"].as_object_mut() {
            annotations.remove("node.alpha.kubernetes.io/ttl");
            if annotations.is_empty() {
                node["metadata"]["annotations"] = Value::Null;
            }
        }
        (
            node["metadata"]["annotations"].take(),
            node["metadata"]["labels"].take(),
            node["spec"].take(),
            node["status"].take(),
        )
    };
    ensure(content(&write.before) == content(&write.after), || "more has changed".to_owned())
}
