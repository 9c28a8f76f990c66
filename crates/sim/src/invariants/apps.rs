//! Rules for Deployments, ReplicaSets, StatefulSets and DaemonSets.

use std::sync::Arc;

use serde_json::Value;

use super::values::{ensure, is_deleting, items, manager, name, text, uid};
use super::{Rule, ServerState, Write, rule};

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    rule("replicaset-controller",                "never more pods than spec.replicas has ever been", replicaset_size),
    rule("replicationcontroller-controller",     "never more pods than spec.replicas has ever been", replication_size),
    rule("statefulset-controller",               "only ordinals within the replicas",                ordinals),
    rule("statefulset-controller",               "a pod is created after its claims",                claims_come_first),
    rule("daemonset-controller",                 "one pod per node, or two while surging",           one_on_a_node),
    rule("deployment-controller",                "never more pods than replicas and surge",          deployment_size),
    rule("deployment-controller",                "only empty ReplicaSets are deleted",               only_empty_sets),
    rule("horizontal-pod-autoscaler-controller", "a size between minReplicas and maxReplicas",       within_limits),
];

fn number(value: &Value, otherwise: i64) -> i64 {
    value.as_i64().unwrap_or(otherwise)
}

/// The maximum of a function over an object's states.
fn most(versions: &[Arc<Value>], of: impl Fn(&Value) -> i64) -> i64 {
    versions.iter().map(|version| of(version)).max().unwrap_or(0)
}

fn replicaset_size(state: &ServerState, write: &Write) -> Result<(), String> {
    size(state, write, "apps", "replicasets")
}

fn replication_size(state: &ServerState, write: &Write) -> Result<(), String> {
    size(state, write, "", "replicationcontrollers")
}

fn size(state: &ServerState, write: &Write, group: &str, resource: &str) -> Result<(), String> {
    if !write.creates("", "pods") {
        return Ok(());
    }
    let owner = manager(&write.after);
    ensure(!owner.is_empty(), || "the pod has no controller".to_owned())?;
    let wanted = most(&state.versions(group, resource, owner), |set| number(&set["spec"]["replicas"], 1));
    let live = state.live_pods(&write.account, &write.namespace, owner).len();
    ensure(i64::try_from(live).unwrap_or(i64::MAX) <= wanted, || {
        format!("{live} live, {wanted} wanted at most")
    })
}

/// The number at the end of a pod's name.
fn ordinal(pod: &Value) -> Option<i64> {
    name(pod).rsplit_once('-').and_then(|(_, number)| number.parse().ok())
}

fn ordinals(state: &ServerState, write: &Write) -> Result<(), String> {
    if !write.creates("", "pods") {
        return Ok(());
    }
    let owner = manager(&write.after);
    let sets = state.versions("apps", "statefulsets", owner);
    let number_of = ordinal(&write.after).ok_or("the pod has no ordinal")?;
    let is_wanted = |set: &Arc<Value>| {
        let start = number(&set["spec"]["ordinals"]["start"], 0);
        let end = start + number(&set["spec"]["replicas"], 1);
        (start..end).contains(&number_of)
    };
    ensure(sets.iter().any(is_wanted), || format!("ordinal {number_of} was never wanted"))?;
    let pods = state.list("", "pods", Some(&write.namespace));
    let same = pods.iter().filter(|pod| manager(pod) == owner && ordinal(pod) == Some(number_of)).count();
    ensure(same == 1, || format!("{same} pods with ordinal {number_of}"))
}

fn claims_come_first(state: &ServerState, write: &Write) -> Result<(), String> {
    if !write.creates("", "pods") {
        return Ok(());
    }
    let sets = state.versions("apps", "statefulsets", manager(&write.after));
    let templates = sets.last().map(|set| set["spec"]["volumeClaimTemplates"].clone()).unwrap_or_default();
    for template in items(&templates) {
        let volumes = items(&write.after["spec"]["volumes"]);
        let mut named = volumes.filter(|volume| volume["name"] == template["metadata"]["name"]);
        let Some(volume) = named.next() else { continue };
        let claim = text(&volume["persistentVolumeClaim"]["claimName"]);
        let found = state.get("", "persistentvolumeclaims", &write.namespace, claim);
        // It may have been deleted since the controller saw it.
        let was_there = !found.is_null()
            || !state.versions_named("", "persistentvolumeclaims", &write.namespace, claim).is_empty();
        ensure(was_there, || format!("there was never a claim {claim}"))?;
    }
    Ok(())
}

/// The node that a DaemonSet created a pod for.
fn place(pod: &Value) -> &str {
    let terms = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let mut fields = items(&terms["nodeSelectorTerms"]).flat_map(|term| items(&term["matchFields"]));
    let field = fields.find(|field| field["key"] == "metadata.name");
    field.map_or(text(&pod["spec"]["nodeName"]), |field| text(&field["values"][0]))
}

fn one_on_a_node(state: &ServerState, write: &Write) -> Result<(), String> {
    if !write.creates("", "pods") {
        return Ok(());
    }
    let owner = manager(&write.after);
    let node = place(&write.after).to_owned();
    ensure(!owner.is_empty() && !node.is_empty(), || "the pod has no owner or no node".to_owned())?;
    let may_surge = |set: &Arc<Value>| {
        let surge = &set["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"];
        !(surge.is_null() || surge == 0 || surge == "0%")
    };
    let surges = state.versions("apps", "daemonsets", owner).iter().any(may_surge);
    let live = state.live_pods(&write.account, &write.namespace, owner);
    let here = live.iter().filter(|pod| place(pod) == node).count();
    ensure(here <= 1 + usize::from(surges), || format!("{here} live pods on {node}"))
}

/// A number, or a part of a whole, rounded up.
fn share(value: &Value, whole: i64) -> i64 {
    match value.as_str().and_then(|text| text.strip_suffix('%')).and_then(|text| text.parse::<i64>().ok()) {
        Some(percent) => (whole * percent + 99) / 100,
        None => value.as_i64().unwrap_or(0),
    }
}

fn deployment_size(state: &ServerState, write: &Write) -> Result<(), String> {
    let replicas = |set: &Value| number(&set["spec"]["replicas"], 0);
    let grows = write.is_on("apps", "replicasets") && replicas(&write.after) > replicas(&write.before);
    if !grows {
        return Ok(());
    }
    let owner = manager(&write.after);
    let versions = state.versions("apps", "deployments", owner);
    let allowed = most(&versions, |deployment| {
        let wanted = number(&deployment["spec"]["replicas"], 1);
        let surge = share(&deployment["spec"]["strategy"]["rollingUpdate"]["maxSurge"], wanted);
        // Where both would be zero, as with small percentages, one pod may be unavailable and none is created in advance.
        wanted + surge
    });
    let sets = state.list("apps", "replicasets", Some(&write.namespace));
    let own = |set: &&Arc<Value>| manager(set) == owner && !is_deleting(set);
    // What others have scaled or added does not count.
    let is_meddled = |set: &Arc<Value>| {
        !state.was_made_by(&write.account, set)
            || state.was_scaled_by_others(&write.account, "apps", "replicasets", set)
    };
    if sets.iter().filter(own).any(is_meddled) {
        return Ok(());
    }
    let total: i64 = sets.iter().filter(own).map(|set| replicas(set)).sum();
    ensure(total <= allowed, || format!("{total} replicas, {allowed} allowed at most"))
}

fn only_empty_sets(_: &ServerState, write: &Write) -> Result<(), String> {
    let size = number(&write.before["spec"]["replicas"], 0) + number(&write.before["status"]["replicas"], 0);
    ensure(!write.deletes("apps", "replicasets") || size == 0, || format!("it has {size}"))
}

fn within_limits(state: &ServerState, write: &Write) -> Result<(), String> {
    if write.subresource != "scale" {
        return Ok(());
    }
    let size = number(&write.body["spec"]["replicas"], -1);
    let scalers = state.list("autoscaling", "horizontalpodautoscalers", Some(&write.namespace));
    let aims = |scaler: &&Arc<Value>| text(&scaler["spec"]["scaleTargetRef"]["name"]) == write.name;
    let mut versions = scalers
        .iter()
        .filter(aims)
        .flat_map(|s| state.versions("autoscaling", "horizontalpodautoscalers", uid(s)));
    let may_be = |scaler: Arc<Value>| {
        let spec = &scaler["spec"];
        (number(&spec["minReplicas"], 1)..=number(&spec["maxReplicas"], i64::MAX)).contains(&size)
    };
    // A deleted one cannot be checked.
    let is_gone = scalers.iter().all(|scaler| !aims(&scaler));
    ensure(is_gone || versions.any(may_be), || format!("{size} replicas"))
}
