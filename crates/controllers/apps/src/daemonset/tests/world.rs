//! Builds a snapshot from lines of text.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::{DaemonSet, Node, Timestamp, time};
use flyball_runtime::Plan;
use serde_json::json;

use crate::daemonset::invariants;
use crate::daemonset::placement::Placement;
use crate::daemonset::plan::{Step, Why, created, deleted, plan};
use crate::daemonset::view::View;

/// The time of all tests: 2026-01-01T00:00:00Z.
pub(super) fn now() -> Timestamp {
    Timestamp::from_second(1_767_225_600).unwrap()
}

fn ago(seconds: i64) -> String {
    time::format_seconds(Timestamp::from_second(now().as_second() - seconds).unwrap())
}

/// A node from `name:word,word`. Words: `keep-off` and `drive-off` (taints), `label=VALUE` (of `zone`),
/// `taint=KEY/EFFECT`.
pub(super) fn node(text: &str) -> Arc<Node> {
    let (name, words) = text.split_once(':').unwrap_or((text, ""));
    let mut node = json!({"metadata": {"name": name, "labels": {}}, "spec": {"taints": []}});
    for word in words.split(',').filter(|word| !word.is_empty()) {
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        match word {
            "keep-off" => node["spec"]["taints"] = json!([{"key": "a", "effect": "NoSchedule"}]),
            "drive-off" => node["spec"]["taints"] = json!([{"key": "a", "effect": "NoExecute"}]),
            "taint" => {
                let (key, effect) = value.rsplit_once('/').unwrap();
                node["spec"]["taints"] = json!([{"key": key, "effect": effect}]);
            }
            "label" => node["metadata"]["labels"]["zone"] = json!(value),
            other => panic!("unknown word {other}"),
        }
    }
    Arc::new(serde_json::from_value(node).unwrap())
}

pub(super) fn nodes(text: &str) -> Vec<Arc<Node>> {
    text.split_whitespace().map(node).collect()
}

/// A pod from `name@node:word,word`. Words: `unready`, `ready=SECONDS`, `failed`, `succeeded`, `terminating`,
/// `unscheduled`, `old` (of another revision), `age=SECONDS`.
pub(super) fn pod(text: &str) -> Arc<Pod> {
    let (place, words) = text.split_once(':').unwrap_or((text, ""));
    let (name, node) = place.split_once('@').unwrap();
    let ready = |seconds| json!([{"type": "Ready", "status": "True", "lastTransitionTime": ago(seconds)}]);
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": "1",
            "creationTimestamp": ago(3600), "labels": {"app": "agent", "controller-revision-hash": "new"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "uid-agent", "controller": true}]},
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "conditions": ready(3600)},
    });
    for word in words.split(',').filter(|word| !word.is_empty()) {
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        match word {
            "failed" | "succeeded" => pod["status"] = json!({"phase": word[..1].to_uppercase() + &word[1..]}),
            "unready" => pod["status"]["conditions"] = json!([]),
            "ready" => pod["status"]["conditions"] = ready(value.parse().unwrap()),
            "terminating" => pod["metadata"]["deletionTimestamp"] = json!(ago(1)),
            "old" => pod["metadata"]["labels"]["controller-revision-hash"] = json!("old"),
            "age" => pod["metadata"]["creationTimestamp"] = json!(ago(value.parse().unwrap())),
            "unscheduled" => {
                let term =
                    json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
                pod["spec"] = json!({"affinity": {"nodeAffinity":
                    {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}});
                pod["status"] = json!({"phase": "Pending"});
            }
            other => panic!("unknown word {other}"),
        }
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

pub(super) fn pods(text: &str) -> Vec<Arc<Pod>> {
    text.split_whitespace().map(pod).collect()
}

/// The set `agent` from words: `ondelete`, `unavailable=TEXT`, `surge=TEXT`, `min-ready=SECONDS`, `zone=VALUE` (its
/// node selector), `node=NAME`, `bears=KEY` (a toleration), `host` (the network of the node), `misscheduled`.
pub(super) fn set(text: &str) -> DaemonSet {
    let mut set = json!({
        "metadata": {"name": "agent", "namespace": "ns", "uid": "uid-agent", "resourceVersion": "1", "generation": 3,
            "annotations": {"deprecated.daemonset.template.generation": "5"}},
        "spec": {"selector": {"matchLabels": {"app": "agent"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    });
    for word in text.split_whitespace() {
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        let amount = value.parse::<i32>().map_or(json!(value), |number| json!(number));
        let spec = &mut set["spec"];
        match word {
            "ondelete" => spec["updateStrategy"] = json!({"type": "OnDelete"}),
            "unavailable" => spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = amount,
            "surge" => {
                spec["updateStrategy"]["rollingUpdate"] = json!({"maxUnavailable": 0, "maxSurge": amount});
            }
            "min-ready" => spec["minReadySeconds"] = amount,
            "zone" => spec["template"]["spec"]["nodeSelector"] = json!({"zone": value}),
            "node" => spec["template"]["spec"]["nodeName"] = json!(value),
            "bears" => {
                spec["template"]["spec"]["tolerations"] = json!([{"key": value, "operator": "Exists"}])
            }
            "host" => spec["template"]["spec"]["hostNetwork"] = json!(true),
            "misscheduled" => set["status"] = json!({"numberMisscheduled": 1}),
            other => panic!("unknown word {other}"),
        }
    }
    serde_json::from_value(set).unwrap()
}

pub(super) fn view<'a>(set: &'a DaemonSet, nodes: &[Arc<Node>], pods: &'a [Arc<Pod>]) -> View<'a> {
    View::new(set, nodes, pods, "new", &Placement::of(set, false), now())
}

fn words(plan: &Plan<Step<'_>>) -> String {
    let created = created(plan).into_iter().map(|node| format!("create {node}"));
    let deleted = deleted(plan).into_iter().map(|deletion| {
        let why = match deletion.why {
            Why::Failed => "failed",
            Why::Succeeded => "succeeded",
            Why::Surplus => "surplus",
            Why::Misplaced => "misplaced",
            Why::NodeGone => "node-gone",
            Why::Superseded => "superseded",
            Why::Outdated => "outdated",
        };
        format!("delete {} {why}", deletion.pod.metadata.name)
    });
    created.chain(deleted).collect::<Vec<_>>().join(", ")
}

/// The whole plan: writes, events, grouping and waiting.
pub(super) fn described(set_words: &str, node_words: &str, pod_words: &str) -> String {
    let (set, nodes, pods) = (set(set_words), nodes(node_words), pods(pod_words));
    plan(&view(&set, &nodes, &pods)).unwrap().to_string()
}

/// The writes of the plan as text.
pub(super) fn planned(set_words: &str, node_words: &str, pod_words: &str) -> String {
    let (set, nodes, pods) = (set(set_words), nodes(node_words), pods(pod_words));
    let view = view(&set, &nodes, &pods);
    let plan = plan(&view).unwrap();
    invariants::check(&view, &plan).unwrap();
    words(&plan)
}

/// The plan during a backoff on `node`, and when to sync again.
pub(super) fn planned_in_backoff(node: &str, pod_words: &str) -> (String, Option<Duration>) {
    let (set, nodes, pods) = (set(""), nodes(node), pods(pod_words));
    let mut view = view(&set, &nodes, &pods);
    view.backoff.insert(node.into(), Duration::from_secs(8));
    let plan = plan(&view).unwrap();
    (words(&plan), plan.requeue)
}
