use serde_json::json;

use super::world::{decided, described, indexed, job};
use crate::job::plan::unknown_mode;

#[test]
fn active_pods_follow_parallelism_and_remaining_completions() {
    #[rustfmt::skip]
    let table = [
        // case                                   spec                                                    pods                              step
        ("none yet",                              json!({}),                                              "",                               "create any any"),
        ("settled",                               json!({}),                                              "a b",                            ""),
        ("one missing",                           json!({}),                                              "a",                              "create any"),
        ("one too many, the least useful goes",   json!({}),                                              "a:ready b:pending c:ready",      "discard b"),
        ("little work left",                      json!({"status": {"succeeded": 4}}),                    "",                               "create any"),
        ("little work left, too many run",        json!({"status": {"succeeded": 4}}),                    "a:ready b",                      "discard b"),
        ("a success counts before it is written", json!({"status": {"succeeded": 3}}),                    "a:succeeded",                    "create any"),
        ("nothing wanted",                        json!({"parallelism": 0}),                              "a b",                            "discard a b"),
        ("a burst at most",                       json!({"parallelism": 600, "completions": 900, "status": {}}),   "",                     &format!("create {}", vec!["any"; 500].join(" "))),
        ("suspended",                             json!({"suspend": true}),                               "a b",                            "discard a b"),
        ("being deleted",                         json!({"deleting": true}),                              "a",                              ""),
        ("any success is enough: no more",        json!({"completions": null}),                           "a:succeeded b",                  ""),
        ("any success is enough: none yet",       json!({"completions": null}),                           "a",                              "create any"),
        ("a fresh failure delays",                json!({}),                                              "a:failed,ended=4",               "wait 6"),
        ("an old failure does not",               json!({}),                                              "a:failed,ended=40",              "create any any"),
        ("a dying pod is replaced at once",       json!({}),                                              "a b:terminating,age=9",          "wait 9"),
        ("or once it has ended",                  json!({"podReplacementPolicy": "Failed"}),              "a b:terminating",                ""),
        ("or once it has ended, by policy",       json!({"podFailurePolicy": {"rules": []}}),             "a b:terminating",                ""),
    ];
    for (case, spec, pods, want) in table {
        assert_eq!(decided(&job(spec), pods).1, want, "{case}");
    }
}

#[test]
fn each_index_has_one_pod() {
    let done = |text: &str| json!({"status": {"completedIndexes": text}});
    #[rustfmt::skip]
    let table = [
        // case                             spec                                               pods                                             step
        ("none yet",                        json!({}),                                         "",                                              "create 0 1"),
        ("the gap is filled",               json!({"parallelism": 3}),                         "a:index=0 b:index=2",                           "create 1"),
        ("what is done stays done",         done("0,2"),                                       "",                                              "create 1 3"),
        ("done but not written",            json!({}),                                         "a:succeeded,index=0",                           "create 1 2"),
        ("doubled: the lesser goes",        json!({"parallelism": 3}),                         "a:index=0,ready b:index=0,pending c:index=1",   "discard b"),
        ("no index",                        json!({"parallelism": 3}),                         "a b:index=0",                                   "discard a"),
        ("beyond completions",              json!({"parallelism": 3}),                         "a:index=7 b:index=0",                           "discard a"),
        ("all done",                        done("0-4"),                                       "",                                              ""),
        ("a fresh failure delays all",      json!({}),                                         "a:failed,index=0,ended=4",                      "wait 6"),
        ("dying, replaced once ended",      json!({"podReplacementPolicy": "Failed", "parallelism": 3}), "a:index=0,terminating b:index=1",     "create 2"),
    ];
    for (case, spec, pods, want) in table {
        assert_eq!(decided(&indexed(spec), pods).1, want, "{case}");
    }
}

#[test]
fn with_a_limit_per_index_each_index_has_its_own_backoff_and_failure_count() {
    let limit = |more: serde_json::Value| {
        let mut spec = json!({"backoffLimitPerIndex": 2, "parallelism": 3});
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        spec
    };
    let ignore = json!({"podFailurePolicy": {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}]}});
    #[rustfmt::skip]
    let table = [
        // case                                  spec              pods                                                               step
        ("fresh",                                json!({}),        "",                                                                "create 0:0 1:0 2:0"),
        ("others do not wait",                   json!({}),        "a:failed,index=0,ended=4",                                        "create 1:0 2:0"),
        ("only it is left",                      json!({}),        "a:failed,index=0,ended=4 b:index=1 c:index=2",                    "wait 6"),
        ("failed once",                          json!({}),        "a:failed,index=0,ended=40 b:index=1 c:index=2",                   "create 0:1"),
        ("failed twice, longer",                 json!({}),        "a:failed,index=0,failures=1,ended=15 b:index=1 c:index=2",        "wait 5"),
        ("failed thrice: lost",                  json!({}),        "a:failed,index=0,failures=2,ended=90 b:index=1 c:index=2",        "create 3:0"),
        ("an ignored failure is handed on, too", ignore,           "a:failed,index=0,failures=2,ended=90 b:index=1 c:index=2",        "create 0:2+1"),
        ("the latest failure counts",            json!({}),        "a:failed,index=0,ended=90 b:failed,index=0,failures=1,ended=50 c:index=1 d:index=2", "create 0:2"),
    ];
    for (case, more, pods, want) in table {
        assert_eq!(decided(&indexed(limit(more)), pods).1, want, "{case}");
    }
}

#[test]
fn plans_state_their_events_and_what_they_wait_for() {
    let events = |verb: &str, name: &str| match verb {
        "create" => "\
then event Normal SuccessfulCreate: Created pod: <name>
    else event Warning FailedCreate: Error creating: <error>"
            .to_owned(),
        _ => format!(
            "then event Normal SuccessfulDelete: Deleted pod: {name}\n{{indent}}else event Warning FailedDelete: Error deleting: <error>"
        ),
    };
    let (made, gone) =
        (events("create", ""), |name: &str, indent: &str| events("delete", name).replace("{indent}", indent));
    let reason = "1 active pods, 2 wanted; 0 succeeded, 0 failed";
    assert_eq!(
        described(&job(json!({})), "a"),
        format!("slow start\n  create Pod ns/j-*: {reason}\n    {made}\nwaiting for Pod/ns/a to finish")
    );
    assert_eq!(
        described(&indexed(json!({})), "a:index=0"),
        format!("slow start\n  create Pod ns/j-1-*: {reason}\n    {made}\nwaiting for Pod/ns/a to finish")
    );
    let reason = "1 active pods, 0 wanted; 0 succeeded, 0 failed";
    assert_eq!(
        described(&job(json!({"parallelism": 0})), "a"),
        format!(
            "concurrently\n  in sequence\n    patch Pod ns/a: {reason}\n    delete Pod ns/a: {reason}\n      {}\nwaiting for Pod/ns/a to finish",
            gone("a", "      ")
        )
    );
    assert_eq!(
        described(&job(json!({"activeDeadlineSeconds": 100})), "a"),
        format!(
            "concurrently\n  delete Pod ns/a: the Job has ended: Job was active longer than specified deadline\n    {}\nwaiting for Pod/ns/a to terminate",
            gone("a", "    ")
        )
    );
}

#[test]
fn plans_without_writes_state_what_the_job_waits_for() {
    let unlabelled = json!({"template": {"metadata": {}, "spec": {"containers": []}}});
    #[rustfmt::skip]
    let table = [
        // case                       spec                                               pods                        plan
        ("pods run",                  json!({}),                                         "a b",                      "waiting for Pod/ns/a to finish"),
        ("until the deadline",        json!({"activeDeadlineSeconds": 130}),             "a b",                      "again after 30s\nwaiting for Pod/ns/a to finish"),
        ("backoff",                   json!({"parallelism": 1}),                         "a:failed,ended=4",         "again after 6s\nwaiting for 2026-01-01T00:00:06Z, when a failed pod is replaced"),
        ("backoff, nearly over",      json!({"parallelism": 1}),                         "a:failed,ended=10",        "slow start"),
        ("a pod is to end first",     json!({"podReplacementPolicy": "Failed"}),         "a b:terminating",          "waiting for Pod/ns/b to terminate"),
        ("suspended",                 json!({"suspend": true}),                          "",                         "waiting for Job/ns/j to be resumed"),
        ("over, but pods are ending", json!({"completions": 1, "backoffLimit": 0}),      "a:failed b:terminating",   "waiting for Pod/ns/b to terminate"),
        ("being deleted",             json!({"deleting": true}),                         "",                         ""),
        ("no labels",                 unlabelled,                                        "",                         "fail: unable to create pods, no labels"),
    ];
    for (case, spec, pods, want) in table {
        let plan = described(&job(spec), pods);
        let plan = if plan.starts_with("slow start") { "slow start" } else { &plan };
        assert_eq!(plan, want, "{case}");
    }
}

#[test]
fn an_unknown_completion_mode_is_reported() {
    let event =
        |mode: serde_json::Value| unknown_mode(&job(json!({"completionMode": mode}))).map(|e| e.to_string());
    assert_eq!(event(json!(null)), None);
    assert_eq!(event(json!("Indexed")), None);
    let want = "event Warning UnknownCompletionMode: Skipped Job sync because completion mode is unknown";
    assert_eq!(event(json!("Sorted")).as_deref(), Some(want));
}
