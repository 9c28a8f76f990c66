//! Objects for the tables, from short texts.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{PersistentVolumeClaim, ResourceList, ResourceQuota, Service, Timestamp};
use serde_json::{Value, json};

use crate::resourcequota::usage::Features;

pub(super) const ALL: Features = Features {
    pod_level_resources: true,
    resize: true,
    devices: true,
    extended_devices: true,
    volume_recovery: true,
    volume_attributes: true,
};

pub(super) fn now() -> Timestamp {
    "2026-06-15T12:00:00Z".parse().unwrap()
}

/// A pod with this spec, running.
pub(super) fn pod(spec: Value) -> Arc<Pod> {
    pod_with(spec, json!({"phase": "Running"}))
}

pub(super) fn pod_with(spec: Value, status: Value) -> Arc<Pod> {
    let pod =
        json!({"metadata": {"name": "p", "namespace": "n", "uid": "u-p"}, "spec": spec, "status": status});
    Arc::new(serde_json::from_value(pod).unwrap())
}

/// A pod of one container with these requests, `cpu=1 memory=1Gi`, and after ` / ` limits.
pub(super) fn asking(text: &str) -> Arc<Pod> {
    pod(json!({"containers": [container(text)]}))
}

pub(super) fn container(text: &str) -> Value {
    let (requests, limits) = text.split_once(" / ").unwrap_or((text, ""));
    json!({"name": "c", "image": "i", "resources": {"requests": amounts(requests), "limits": amounts(limits)}})
}

/// `cpu=1 memory=1Gi` as a list of amounts.
pub(super) fn amounts(text: &str) -> Value {
    let entries = text.split_whitespace().map(|entry| entry.split_once('=').unwrap());
    Value::Object(entries.map(|(name, amount)| (name.to_owned(), json!(amount))).collect())
}

pub(super) fn list(text: &str) -> ResourceList {
    serde_json::from_value(amounts(text)).unwrap()
}

/// What a list says, in the same form.
pub(super) fn shown(list: &ResourceList) -> String {
    list.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(" ")
}

pub(super) fn service(spec: Value) -> Arc<Service> {
    let service = json!({"metadata": {"name": "s", "namespace": "n", "uid": "u-s"}, "spec": spec});
    Arc::new(serde_json::from_value(service).unwrap())
}

pub(super) fn claim(spec: Value, status: Value) -> Arc<PersistentVolumeClaim> {
    let claim =
        json!({"metadata": {"name": "c", "namespace": "n", "uid": "u-c"}, "spec": spec, "status": status});
    Arc::new(serde_json::from_value(claim).unwrap())
}

/// A quota in namespace `n`: limits, and a status of limits and usage.
pub(super) fn quota(hard: &str, status_hard: &str, used: &str) -> Arc<ResourceQuota> {
    let quota = json!({
        "metadata": {"name": "q", "namespace": "n", "uid": "u-q"}, "spec": {"hard": amounts(hard)},
        "status": {"hard": amounts(status_hard), "used": amounts(used)},
    });
    Arc::new(serde_json::from_value(quota).unwrap())
}
