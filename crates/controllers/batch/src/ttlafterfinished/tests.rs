use flyball_api::{Job, Timestamp};
use serde_json::{Value, json};

use super::plan::plan;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

/// A Job named `j` that finished at 2026-01-01T00:00:00Z, with other metadata.
fn job(ttl: Value, condition: &str, finished: Value, metadata: Value) -> Job {
    let mut object = json!({
        "metadata": {"name": "j", "namespace": "ns", "uid": "u"},
        "spec": {"ttlSecondsAfterFinished": ttl},
        "status": {"conditions": [{"type": condition, "status": "True", "lastTransitionTime": finished}]},
    });
    for (field, value) in metadata.as_object().unwrap() {
        object["metadata"][field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

#[test]
fn a_job_is_deleted_when_its_ttl_has_expired() {
    let wait =
        |seconds| format!("again after {seconds}s\nwaiting for 2026-01-01T00:00:10Z, when it is deleted");
    let delete =
        |time| format!("delete Job ns/j: it has finished, and its TTL expired at 2026-01-01T00:00:{time}Z");
    #[rustfmt::skip]
    let table = [
        // case             ttl           condition    now   plan
        ("active",          json!(10),    "Suspended", 100,  String::new()),
        ("kept",            json!(null),  "Complete",  100,  String::new()),
        ("not yet",         json!(10),    "Complete",    4,  wait(6)),
        ("now",             json!(10),    "Failed",     10,  delete("10")),
        ("at once",         json!(0),     "Complete",    0,  delete("00")),
        ("clocks differ",   json!(10),    "Complete",   -5,  wait(15)),
    ];
    for (case, ttl, condition, now, want) in table {
        let job = job(ttl, condition, json!("2026-01-01T00:00:00Z"), json!({}));
        let plan = plan(&job, at(now));
        assert_eq!(plan.to_string(), want, "{case}");
        assert!(plan.writes().iter().all(|write| write.tag <= at(now)), "{case}: not before its time");
    }
}

#[test]
fn a_deleted_job_is_ignored_and_one_without_a_finish_time_is_invalid() {
    let deleting = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    let deleted = job(json!(0), "Complete", json!("2026-01-01T00:00:00Z"), deleting);
    assert_eq!(plan(&deleted, at(100)).to_string(), "");
    let unfinished = job(json!(0), "Complete", json!(null), json!({}));
    assert_eq!(plan(&unfinished, at(100)).to_string(), "invalid: Job ns/j has ended, but does not say when");
}
