//! Builds a snapshot from a line of text.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{ReplicaSet, ReplicationController, Timestamp};
use flyball_runtime::Plan;
use serde_json::{Value, json};

use crate::replicaset::invariants;
use crate::replicaset::plan::{View, plan};

/// The time of all tests: 2026-01-01T00:00:00Z.
pub(super) fn now() -> Timestamp {
    Timestamp::from_second(1_767_225_600).unwrap()
}

fn ago(seconds: i64) -> String {
    flyball_api::time::format_seconds(Timestamp::from_second(now().as_second() - seconds).unwrap())
}

/// A pod from `name:word,word`. Words: `pending`, `running`, `succeeded`, `failed`, `unscheduled`, `terminating`,
/// `ready` (for an hour) or `ready=SECONDS`, `on=NODE`, `cost=TEXT`, `restarts=N`, `age=SECONDS`, `label=VALUE`,
/// `owner=UID`, `group=NAME` (of the owner reference), `orphan`.
pub(super) fn pod(text: &str) -> Arc<Pod> {
    let (name, words) = text.split_once(':').unwrap_or((text, ""));
    let owner = |uid: &str| json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": uid.replace("uid-", ""), "uid": uid, "controller": true}]);
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": "1",
            "creationTimestamp": ago(3600), "labels": {"app": "web", "tier": "front"}, "ownerReferences": owner("uid-web")},
        "spec": {"nodeName": "node-1"},
        "status": {"phase": "Running"},
    });
    for word in words.split(',').filter(|word| !word.is_empty()) {
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        let seconds = || value.parse::<i64>().unwrap_or(3600);
        match word {
            "pending" | "running" | "succeeded" | "failed" => {
                let phase = word[..1].to_uppercase() + &word[1..];
                pod["status"]["phase"] = json!(phase);
            }
            "unscheduled" => {
                pod["spec"]["nodeName"] = json!("");
                pod["status"]["phase"] = json!("Pending");
            }
            "terminating" => pod["metadata"]["deletionTimestamp"] = json!(ago(1)),
            "ready" => {
                let condition =
                    json!({"type": "Ready", "status": "True", "lastTransitionTime": ago(seconds())});
                pod["status"]["conditions"] = json!([condition]);
            }
            "on" => pod["spec"]["nodeName"] = json!(value),
            "cost" => pod["metadata"]["annotations"] = json!({flyball_common::spare::DELETION_COST: value}),
            "restarts" => {
                pod["status"]["containerStatuses"] = json!([{"name": "c", "restartCount": seconds()}])
            }
            "age" => pod["metadata"]["creationTimestamp"] = json!(ago(seconds())),
            "label" => pod["metadata"]["labels"] = json!({"app": value}),
            "owner" => pod["metadata"]["ownerReferences"] = owner(value),
            "group" => {
                pod["metadata"]["ownerReferences"][0]["apiVersion"] = json!(format!("{value}/v1beta1"))
            }
            "orphan" => pod["metadata"]["ownerReferences"] = json!([]),
            other => panic!("unknown word {other}"),
        }
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

pub(super) fn pods(text: &str) -> Vec<Arc<Pod>> {
    text.split_whitespace().map(pod).collect()
}

/// A set named `web` with defaults for all fields of spec and status that are not given.
pub(super) fn set(spec: Value, status: Value) -> ReplicaSet {
    let mut object = json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "uid-web", "resourceVersion": "1", "generation": 3},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web", "tier": "front"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
        "status": status,
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

/// The plan for a number of replicas and some pods: `create N` or the names to delete, in order.
pub(super) fn planned(replicas: usize, own: &str, family: &str) -> String {
    let set = set(json!({"replicas": replicas}), json!({}));
    let (own, mut family) = (pods(own), pods(family));
    if !family.is_empty() {
        family.extend(own.clone());
    }
    let view = View { set: &set, pods: &own, family: &family, has_costs: true, now: now() };
    let plan = plan(&view);
    invariants::check(&view, &plan).unwrap();
    match plan.writes().iter().all(|write| write.tag.is_some()) {
        true => deleted(&plan),
        false => format!("create {}", plan.writes().len()),
    }
}

/// The pods that a plan deletes, in order.
pub(super) fn deleted(plan: &Plan<Option<&Pod>>) -> String {
    let delete = |pod: &Pod| format!("delete {}", pod.metadata.name);
    plan.writes().iter().filter_map(|write| Some(delete(write.tag?))).collect::<Vec<_>>().join(", ")
}

/// A ReplicationController named `web`.
pub(super) fn replication_controller(replicas: i32) -> ReplicationController {
    let mut object = serde_json::to_value(set(json!({"replicas": replicas}), json!({}))).unwrap();
    object["spec"]["selector"] = json!({"app": "web"});
    serde_json::from_value(object).unwrap()
}
