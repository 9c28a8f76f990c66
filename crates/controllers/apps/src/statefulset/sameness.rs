//! Whether an older revision still means what the template says, although its bytes differ: a newer API server
//! fills in fields that it did not know before, and leaves out nulls that it used to write. Such a change must not
//! replace any pod. Pure.
//!
//! Upstream: `setMatchesLatestExistingRevision`, under the gate `StatefulSetSemanticRevisionComparison`.

use serde_json::{Value, json};

/// Whether `old` lacks nothing of `new` but what the server fills in by itself.
pub fn is_same(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let is_kept = |(field, value): (&String, &Value)| match new.get(field) {
                Some(now) => is_same(value, now),
                None => is_nothing(value),
            };
            let is_filled_in = |(field, value): (&String, &Value)| {
                let is_missing = old.get(field).is_none_or(Value::is_null);
                !is_missing || is_nothing(value) || is_default(field, value, new)
            };
            old.iter().all(is_kept) && new.iter().all(is_filled_in)
        }
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| is_same(old, new))
        }
        (Value::Null, new) => is_nothing(new),
        (old, new) => old == new,
    }
}

/// What says no more than a field that is not there.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(is_nothing),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Whether the server gives `field` of `object` this value where a user gave none.
///
/// Upstream: pkg/apis/core/v1/defaults.go, as far as it concerns templates of pods.
fn is_default(field: &str, value: &Value, object: &serde_json::Map<String, Value>) -> bool {
    let is = |wanted: Value| *value == wanted;
    let is_one_of = |wanted: &[&str]| wanted.iter().any(|wanted| value == wanted);
    match field {
        // The pod.
        "dnsPolicy" => is(json!("ClusterFirst")),
        "restartPolicy" => is(json!("Always")),
        "schedulerName" => is(json!("default-scheduler")),
        "terminationGracePeriodSeconds" => is(json!(30)),
        // Its containers.
        "terminationMessagePath" => is(json!("/dev/termination-log")),
        "terminationMessagePolicy" => is(json!("File")),
        "imagePullPolicy" => is(json!(pull_policy(object.get("image")))),
        "pullPolicy" => is(json!(pull_policy(object.get("reference")))),
        "protocol" => is(json!("TCP")),
        "timeoutSeconds" | "successThreshold" => is(json!(1)),
        "periodSeconds" => is(json!(10)),
        "failureThreshold" => is(json!(3)),
        "scheme" => is(json!("HTTP")),
        "path" => is(json!("/")),
        "service" => is(json!("")),
        "apiVersion" => is(json!("v1")),
        "optional" | "readOnly" => is(json!(false)),
        // Its volumes.
        "defaultMode" => is(json!(0o644)),
        "expirationSeconds" => is(json!(3600)),
        "type" => is(json!("")),
        "volumeMode" => is(json!("Filesystem")),
        "iscsiInterface" => is(json!("default")),
        "pool" => is(json!("rbd")),
        "user" => is(json!("admin")),
        "keyring" => is(json!("/etc/ceph/keyring")),
        "cachingMode" => is(json!("ReadWrite")),
        "kind" => is(json!("Shared")),
        "storageMode" => is(json!("ThinProvisioned")),
        "fsType" => is_one_of(&["ext4", "xfs"]),
        _ => false,
    }
}

/// What the server makes of an image whose pull policy is not given: without a tag, or with `latest`, it may change.
fn pull_policy(image: Option<&Value>) -> &'static str {
    let image = image.and_then(Value::as_str).unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or(image);
    let is_pinned = image.contains('@') || name.split_once(':').is_some_and(|(_, tag)| tag != "latest");
    if is_pinned { "IfNotPresent" } else { "Always" }
}
