//! Tables, with budgets and pods from short texts.

mod census;
mod demand;
mod messages;
mod plan;
mod properties;
mod scales;
mod stale;
mod status;
mod triggers;

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{PodDisruptionBudget, Timestamp};
use serde_json::{Value, json};

use crate::disruption::plan::View;

/// Seconds after 2026-01-01T00:00:00Z.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

fn time(seconds: i64) -> String {
    flyball_api::time::format_seconds(at(seconds))
}

/// Pods such as `a:ready b:unready,going c:ready,of-x`; all have the label `app: x`.
fn pods(words: &str) -> Vec<Arc<Pod>> {
    words.split_whitespace().map(|word| Arc::new(pod(word))).collect()
}

fn pod(word: &str) -> Pod {
    let (name, traits) = word.split_once(':').unwrap_or((word, ""));
    let mut object = json!({
        "metadata": {"namespace": "ns", "name": name, "uid": format!("uid-{name}"), "labels": {"app": "x"}},
        "status": {"phase": "Running", "conditions": []},
    });
    for word in traits.split(',').filter(|word| !word.is_empty()) {
        match word.split_once('-').unwrap_or((word, "")) {
            ("ready", _) => object["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]),
            ("unready", _) => object["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]),
            ("going", _) => object["metadata"]["deletionTimestamp"] = json!(time(0)),
            ("done", _) => object["status"]["phase"] = json!("Succeeded"),
            ("of", owner) => object["metadata"]["ownerReferences"] = owner_of(owner),
            ("label", value) => object["metadata"]["labels"] = json!({"app": value}),
            other => panic!("no word for a pod: {other:?}"),
        }
    }
    serde_json::from_value(object).unwrap()
}

fn owner_of(name: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": format!("uid-{name}"), "controller": true}])
}

/// A budget over `app: x`.
fn budget(spec: Value, status: Value) -> PodDisruptionBudget {
    let mut object = json!({
        "metadata": {"namespace": "ns", "name": "budget", "uid": "uid-budget", "generation": 3},
        "spec": {"selector": {"matchLabels": {"app": "x"}}},
        "status": status,
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

/// A view of a budget that does not depend on a scale, at a second.
fn view<'a>(budget: &'a PodDisruptionBudget, pods: &'a [Arc<Pod>], now: i64) -> View<'a> {
    View {
        budget,
        pods,
        scale: Ok(0),
        is_cache_behind: false,
        has_waited: false,
        has_unseen_pods: false,
        now: at(now),
    }
}
