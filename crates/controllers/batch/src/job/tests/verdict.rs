use serde_json::json;

use super::world::{ago, decided, indexed, job};

#[test]
fn a_job_ends_for_the_first_reason_that_holds() {
    let fail_on_42 =
        json!({"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]});
    let status = |type_: &str| json!({"conditions": [{"type": type_, "status": "True", "reason": "Before"}]});
    #[rustfmt::skip]
    let table = [
        // case                        spec                                                                      pods                           reason                   step
        ("at work",                    json!({}),                                                                "a b",                         "",                      ""),
        ("too many failures",          json!({"backoffLimit": 1, "status": {"failed": 1}}),                      "a b:failed",                  "BackoffLimitExceeded",  "stop a"),
        ("as many as allowed",         json!({"backoffLimit": 2, "status": {"failed": 1}}),                      "a b:failed",                  "",                      "create any"),
        ("noted failures count",       json!({"backoffLimit": 0, "status": {"uncountedTerminatedPods": {"failed": ["uid-b"]}}}), "a b:failed",  "BackoffLimitExceeded",  "stop a"),
        ("counted ones do not again",  json!({"backoffLimit": 1, "status": {"failed": 1}}),                      "a b:failed,counted",          "",                      "create any"),
        ("restarts in place",          json!({"backoffLimit": 3, "restartPolicy": "OnFailure"}),                 "a:restarts=2 b:restarts=1",   "BackoffLimitExceeded",  "stop a b"),
        ("few restarts in place",      json!({"backoffLimit": 3, "restartPolicy": "OnFailure"}),                 "a:restarts=2 b",              "",                      ""),
        ("no restart is borne",        json!({"backoffLimit": 0, "restartPolicy": "OnFailure"}),                 "a:restarts=1 b",              "BackoffLimitExceeded",  "stop a b"),
        ("no restart has happened",    json!({"backoffLimit": 0, "restartPolicy": "OnFailure"}),                 "a b",                         "",                      ""),
        ("restarts otherwise",         json!({"backoffLimit": 0}),                                               "a:restarts=9 b",              "",                      ""),
        ("too late",                   json!({"activeDeadlineSeconds": 100}),                                    "a b",                         "DeadlineExceeded",      "stop a b"),
        ("not yet",                    json!({"activeDeadlineSeconds": 101}),                                    "a b",                         "",                      ""),
        ("no time runs while suspended", json!({"activeDeadlineSeconds": 1, "suspend": true}),                   "",                            "",                      ""),
        ("a deadly exit",              json!({"podFailurePolicy": fail_on_42}),                                  "a b:failed,exit=42",          "PodFailurePolicy",      "stop a"),
        ("decided before: badly",      json!({"status": status("FailureTarget")}),                                 "a b",                         "known Before",          "stop a b"),
        ("decided before: well",       json!({"backoffLimit": 0, "status": status("SuccessCriteriaMet")}),         "a b:failed",                  "known Before",          "stop a"),
    ];
    for (case, spec, pods, reason, step) in table {
        assert_eq!(decided(&job(spec), pods), (reason.to_owned(), step.to_owned()), "{case}");
    }
}

#[test]
fn an_indexed_job_ends_by_its_indexes() {
    let of = |more: serde_json::Value| {
        let mut spec = json!({"completions": 3, "parallelism": 3, "backoffLimitPerIndex": 0, "backoffLimit": 2147483647});
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        indexed(spec)
    };
    let fail_index =
        json!({"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}}]});
    let one = json!({"rules": [{"succeededIndexes": "1"}]});
    #[rustfmt::skip]
    let table = [
        // case                   spec                                                     pods                                                       reason
        ("one lost, others run",  json!({}),                                               "a:failed,index=0 b:index=1 c:index=2",                    ""),
        ("one lost, others done", json!({}),                                               "a:failed,index=0 b:succeeded,index=1 c:succeeded,index=2", "FailedIndexes"),
        ("too many lost",         json!({"maxFailedIndexes": 1}),                          "a:failed,index=0 b:failed,index=1 c:index=2",             "MaxFailedIndexesExceeded"),
        ("as many as allowed",    json!({"maxFailedIndexes": 1, "status": {"failedIndexes": "0"}}), "b:index=1 c:index=2",                            ""),
        ("lost by policy",        json!({"backoffLimitPerIndex": 9, "podFailurePolicy": fail_index, "maxFailedIndexes": 0}), "a:failed,index=0,exit=42", "MaxFailedIndexesExceeded"),
        ("the leader is enough",  json!({"successPolicy": one}),                           "a:index=0 b:succeeded,index=1",                           "SuccessPolicy"),
        ("failure goes first",    json!({"successPolicy": one, "maxFailedIndexes": 0}),    "a:failed,index=0 b:succeeded,index=1",                    "MaxFailedIndexesExceeded"),
    ];
    for (case, more, pods, reason) in table {
        assert_eq!(decided(&of(more), pods).0, reason, "{case}");
    }
}

#[test]
fn the_deadline_of_a_job_without_a_start_time_begins_now() {
    let fresh = job(json!({"activeDeadlineSeconds": 1, "status": {"startTime": null}}));
    assert_eq!(decided(&fresh, "").0, "");
    let old = job(json!({"activeDeadlineSeconds": 60, "status": {"startTime": ago(59)}}));
    assert_eq!(decided(&old, "a b").0, "");
}
