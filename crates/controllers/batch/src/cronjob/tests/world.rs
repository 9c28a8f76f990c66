//! Builds CronJobs and Jobs from words.

use std::sync::Arc;

use flyball_api::{CronJob, Job, Timestamp};
use serde_json::{Value, json};

/// A time of 2026-01-01, or any time if it is written in full.
pub(super) fn at(text: &str) -> Timestamp {
    let full = if text.contains('T') { text.to_owned() } else { format!("2026-01-01T{text}Z") };
    full.parse().unwrap()
}

/// A CronJob named `c` that fires every ten minutes and was created at midnight; `status` goes to the status.
pub(super) fn cron(spec: Value) -> CronJob {
    let mut object = json!({
        "metadata": {"name": "c", "namespace": "ns", "uid": "uid-c", "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"schedule": "*/10 * * * *", "concurrencyPolicy": "Allow", "suspend": false,
            "jobTemplate": {"metadata": {"labels": {"l": "1"}, "annotations": {"a": "2"}}, "spec": {"suspend": true}}},
        "status": {},
    });
    for (field, value) in spec.as_object().unwrap() {
        match field.as_str() {
            "status" => object["status"] = value.clone(),
            "deleting" => object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
            _ => object["spec"][field] = value.clone(),
        }
    }
    serde_json::from_value(object).unwrap()
}

/// Jobs from `name:word,word`. Words: `complete`, `failed`, `began=TIME`, `ended=TIME`, `owner=UID`.
pub(super) fn jobs(text: &str) -> Vec<Arc<Job>> {
    let job = |text: &str| {
        let (name, words) = text.split_once(':').unwrap_or((text, ""));
        let mut job = json!({
            "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": "7",
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "uid-c", "controller": true}]},
            "status": {},
        });
        for word in words.split(',').filter(|word| !word.is_empty()) {
            let (word, value) = word.split_once('=').unwrap_or((word, ""));
            let time = || json!(format!("2026-01-01T{value}Z"));
            match word {
                "complete" => job["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]),
                "failed" => job["status"]["conditions"] = json!([{"type": "Failed", "status": "True"}]),
                "began" => job["status"]["startTime"] = time(),
                "ended" => job["status"]["completionTime"] = time(),
                "owner" => job["metadata"]["ownerReferences"][0]["uid"] = json!(value),
                other => panic!("unknown word {other}"),
            }
        }
        Arc::new(serde_json::from_value(job).unwrap())
    };
    text.split_whitespace().map(job).collect()
}

/// Entries of the list of active Jobs.
pub(super) fn listed(names: &str) -> Value {
    let entry = |name: &str| json!({"name": name, "namespace": "ns", "uid": format!("uid-{name}")});
    names.split_whitespace().map(entry).collect()
}
