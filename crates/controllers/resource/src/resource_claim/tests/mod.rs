//! Builds pods, groups and ResourceClaims from words, so that tables are readable.

mod consumer;
mod plan;
mod release;
mod triggers;

use flyball_api::pod::Pod;
use flyball_api::{PodGroup, ResourceClaim};
use serde_json::{Value, json};

/// Entries such as `g=tpl:gpu h=claim:shared i=unknown`.
fn entries(words: &str) -> Value {
    let one = |word: &str| match word.split_once('=').unwrap() {
        (name, from) if from.starts_with("tpl:") => {
            json!({"name": name, "resourceClaimTemplateName": &from[4..]})
        }
        (name, from) if from.starts_with("claim:") => json!({"name": name, "resourceClaimName": &from[6..]}),
        (name, _) => json!({"name": name}),
    };
    words.split_whitespace().map(one).collect()
}

/// Recorded ResourceClaims such as `g=app-g-1 h=`: none is needed for the latter.
fn recorded(words: &str) -> Value {
    let one = |word: &str| {
        let (name, claim) = word.split_once('=').unwrap();
        if claim.is_empty() {
            json!({"name": name})
        } else {
            json!({"name": name, "resourceClaimName": claim})
        }
    };
    words.split_whitespace().map(one).collect()
}

/// A pod `app`, with traits such as `running deleting ended group:team`.
fn pod(words: &str, generated: &str, traits: &str) -> Pod {
    let mut object = json!({
        "metadata": {"namespace": "ns", "name": "app", "uid": "uid-app"},
        "spec": {"resourceClaims": entries(words)},
        "status": {"phase": "Pending", "resourceClaimStatuses": recorded(generated)},
    });
    for word in traits.split_whitespace() {
        match word.split_once(':').unwrap_or((word, "")) {
            ("running", _) => {
                object["spec"]["nodeName"] = json!("node-1");
                object["status"]["phase"] = json!("Running");
            }
            ("ended", _) => object["status"]["phase"] = json!("Succeeded"),
            ("deleting", _) => object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
            ("group", name) => object["spec"]["schedulingGroup"] = json!({"podGroupName": name}),
            ("extended", name) => {
                object["status"]["extendedResourceClaimStatus"] = json!({"resourceClaimName": name});
            }
            other => panic!("unknown word: {other:?}"),
        }
    }
    serde_json::from_value(object).unwrap()
}

fn group(words: &str, generated: &str) -> PodGroup {
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "team", "uid": "uid-team"},
        "spec": {"resourceClaims": entries(words)},
        "status": {"resourceClaimStatuses": recorded(generated)},
    }))
    .unwrap()
}

/// A ResourceClaim, with traits such as `of:app of-group:team for:g allocated protected deleting user:app`.
fn claim(name: &str, traits: &str) -> ResourceClaim {
    let mut object =
        json!({"metadata": {"namespace": "ns", "name": name, "uid": format!("uid-{name}")}, "status": {}});
    let mut users = vec![];
    for word in traits.split_whitespace() {
        let metadata = &mut object["metadata"];
        match word.split_once(':').unwrap_or((word, "")) {
            ("of", owner) => {
                metadata["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": format!("uid-{owner}"), "controller": true}]);
            }
            ("of-group", owner) => {
                metadata["ownerReferences"] = json!([{"apiVersion": "scheduling.k8s.io/v1alpha9", "kind": "PodGroup", "name": owner, "uid": format!("uid-{owner}"), "controller": true}]);
            }
            ("for", entry) => metadata["annotations"] = json!({super::plan::ENTRY: entry}),
            ("protected", _) => metadata["finalizers"] = json!(["other", super::release::FINALIZER]),
            ("deleting", _) => metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
            ("allocated", _) => object["status"]["allocation"] = json!({"devices": {"results": []}}),
            ("user", user) => users.push(json!({"resource": "pods", "name": user, "uid": format!("uid-{user}")})),
            ("group-user", user) => users.push(
                json!({"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": user, "uid": format!("uid-{user}")}),
            ),
            other => panic!("unknown word: {other:?}"),
        }
    }
    object["status"]["reservedFor"] = json!(users);
    serde_json::from_value(object).unwrap()
}
