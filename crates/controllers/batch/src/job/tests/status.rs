use flyball_api::Timestamp;
use flyball_api::condition;
use flyball_api::job::{JobStatus, UncountedTerminatedPods};
use flyball_api::pod::Pod;
use flyball_client::Error;
use flyball_runtime::plan::{Answer, Done, Failure};
use flyball_runtime::{Outcome, Plan, Retry, Write};
use serde_json::json;

use super::world::{ALL, ago, all_done, indexed, job, now, pods, reported, view};
use crate::job::conclusion::{conclude, count_released, finish};
use crate::job::metrics::creations;
use crate::job::plan::{NewPod, PodWrite};
use crate::job::status::{MOST_UNCOUNTED, report};
use crate::job::tally::Tally;
use crate::job::verdict::verdict;
use crate::job::view::{Features, View};

/// `succeeded uids / failed uids -> pods whose finalizer is removed`.
fn counted(job: &flyball_api::Job, own: &str) -> String {
    let own = pods(own);
    let view = view(job, &own);
    let report = reported(&view);
    let uids = |uids: &[flyball_api::Uid]| {
        uids.iter().map(|uid| uid.to_string().replace("uid-", "")).collect::<Vec<_>>().join(" ")
    };
    let uncounted = report.status.uncounted_terminated_pods.unwrap_or_default();
    let free: Vec<_> = report.release.iter().map(|pod| pod.metadata.name.as_str()).collect();
    format!("{} / {} -> {}", uids(&uncounted.succeeded), uids(&uncounted.failed), free.join(" "))
}

#[test]
fn ended_pods_are_recorded_before_their_finalizer_is_removed() {
    let noted = json!({"status": {"uncountedTerminatedPods": {"failed": ["uid-a"], "succeeded": ["uid-b"]}}});
    #[rustfmt::skip]
    let table = [
        // case                          spec                                         pods                                 noted and freed
        ("nothing has ended",            json!({}),                                   "a b",                               " /  -> "),
        ("one of each",                  json!({}),                                   "a:failed b:succeeded c",            "b / a -> a b"),
        ("noted before, not yet freed",  noted.clone(),                               "a:failed b:succeeded c",            "b / a -> a b"),
        ("noted and freed before",       noted,                                       "a:failed,counted c d",              " /  -> "),
        ("counted long ago",             json!({}),                                   "a:failed,counted b c",              " /  -> "),
        ("deleted by a user",            json!({}),                                   "a:terminating b",                   " / a -> a"),
        ("deleted, to be awaited",       json!({"podReplacementPolicy": "Failed"}),   "a:terminating b",                   " /  -> "),
        ("adopted just now",             json!({}),                                   "a:orphan,failed b",                 " / a -> a"),
        ("the Job has failed: all have", json!({"backoffLimit": 0}),                  "a:failed b c:succeeded",            "c / a b -> a b c"),
        ("the Job is being deleted",     json!({"deleting": true}),                   "a b:failed",                        " / b -> a b"),
        ("suspended pods do not count",  json!({"suspend": true}),                    "a b",                               " /  -> "),
    ];
    for (case, spec, pods, want) in table {
        assert_eq!(counted(&job(spec), pods), want, "{case}");
    }
}

#[test]
fn indexes_need_no_uids_to_be_counted_once() {
    let own = pods("a:succeeded,index=1 b:succeeded,index=9 c:failed,index=0 d:failed");
    let job = indexed(json!({"status": {"completedIndexes": "3", "succeeded": 1}}));
    let view = view(&job, &own);
    let report = reported(&view);
    assert_eq!((report.status.completed_indexes.as_str(), report.status.succeeded), ("1,3", 2));
    let uncounted = report.status.uncounted_terminated_pods.unwrap();
    assert_eq!((uncounted.succeeded.len(), uncounted.failed), (0, vec!["uid-c".into()]));
    assert_eq!(report.release.len(), 4, "those without a proper index go, too");
    assert_eq!(report.status.failed_indexes, None, "no limits, no failed indexes");
}

#[test]
fn pods_deleted_after_an_early_success_do_not_count_as_failed() {
    let job = indexed(json!({"successPolicy": {"rules": [{"succeededIndexes": "0"}]}}));
    let stopped = "a:succeeded,index=0 b:index=1,terminating c:index=2,failed";
    assert_eq!(counted(&job, stopped), " / c -> a b c");
}

#[test]
fn a_failed_pod_is_kept_until_its_index_has_a_new_one() {
    let job = indexed(json!({"backoffLimitPerIndex": 3}));
    assert_eq!(counted(&job, "a:failed,index=0,ended=4 b:index=1"), " /  -> ");
    assert_eq!(counted(&job, "a:failed,index=0,ended=4 c:index=0,failures=1 b:index=1"), " / a -> a");
}

#[test]
fn a_status_lists_a_bounded_number_of_uids() {
    let many: Vec<_> = (0..600).map(|n| format!("p{n}:failed,ended=9")).collect();
    let own = pods(&many.join(" "));
    let job = job(json!({"backoffLimit": 1000}));
    let view = view(&job, &own);
    let report = reported(&view);
    assert!(report.is_capped);
    assert_eq!(report.release.len(), MOST_UNCOUNTED);
}

#[test]
fn uids_are_counted_once_their_finalizers_are_removed() {
    let mut status = JobStatus { succeeded: 1, failed: 2, ..JobStatus::default() };
    let mut uncounted =
        UncountedTerminatedPods { succeeded: vec!["a".into(), "b".into()], failed: vec!["c".into()] };
    count_released(&mut status, &mut uncounted, |uid| *uid == "b".into());
    assert_eq!((status.succeeded, status.failed), (2, 3));
    assert_eq!((uncounted.succeeded, uncounted.failed), (vec!["b".into()], vec![]));
}

#[test]
fn the_end_is_first_a_target_condition_and_then_a_final_one() {
    let job = job(json!({"completions": 1}));
    let own = pods("a:succeeded");
    let view = view(&job, &own);
    let report = reported(&view);
    let (mut status, end) = (report.status, report.end.unwrap());
    assert_eq!(types(&status), ["SuccessCriteriaMet"]);
    assert!(!finish(&mut status, &end, 0, now()), "a pod is not counted yet");
    status.uncounted_terminated_pods = Some(UncountedTerminatedPods::default());
    assert!(!finish(&mut status, &end, 1, now()), "a pod has not ended yet");
    assert!(finish(&mut status, &end, 0, now()));
    assert_eq!(
        (types(&status), status.completion_time),
        (vec!["SuccessCriteriaMet", "Complete"], Some(now()))
    );
}

fn types(status: &JobStatus) -> Vec<&str> {
    status.conditions.iter().map(|condition| condition.type_.as_str()).collect()
}

#[test]
fn suspending_and_resuming_set_the_condition_once_and_restart_the_deadline() {
    let suspended = |status: &str, word: &str| json!([{"type": "Suspended", "status": status, "reason": format!("Job{word}"), "message": format!("Job {}", word.to_lowercase())}]);
    let on = || suspended("True", "Suspended");
    let off = || suspended("False", "Resumed");
    let began: Option<Timestamp> = ago(100).parse().ok();
    #[rustfmt::skip]
    let table = [
        // case                      suspend  conditions              event                                          began
        ("never was",                false,   json!([]),              None,                                          began),
        ("suspended",                true,    json!([]),              Some("event Normal Suspended: Job suspended"), None),
        ("still suspended",          true,    on(),                   None,                                          began),
        ("with another reason",      true,    suspended("True", "Paused"), Some("event Normal Suspended: Job suspended"), None),
        ("resumed",                  false,   on(),                   Some("event Normal Resumed: Job resumed"),     Some(now())),
        ("goes on",                  false,   off(),                  None,                                          began),
        ("suspended again",          true,    off(),                  Some("event Normal Suspended: Job suspended"), None),
    ];
    for (case, suspend, conditions, event, began) in table {
        let job = job(json!({"suspend": suspend, "status": {"conditions": conditions}}));
        let own = pods("a b");
        let view = view(&job, &own);
        let report = reported(&view);
        let recorded = report.event.as_ref().map(ToString::to_string);
        assert_eq!((recorded.as_deref(), report.status.start_time), (event, began), "{case}");
        let write = report.write(&job).map(|write| write.to_string()).unwrap_or_default();
        assert_eq!(write.contains("then event"), event.is_some(), "{case}: {write}");
        let suspended = condition::is_true(&report.status.conditions, "Suspended");
        assert_eq!(suspended, suspend, "{case}");
    }
}

#[test]
fn counts_include_the_writes_of_the_sync() {
    let job = job(json!({"parallelism": 1}));
    let own = pods("a:ready b:pending c:terminating,counted");
    let view = view(&job, &own);
    let status = reported(&view).status;
    assert_eq!((status.active, status.ready, status.terminating), (1, Some(1), Some(2)));
}

/// The writes of the report, the release of pods and the conclusion, as they are displayed.
fn published(job: &flyball_api::Job, own: &str) -> [String; 3] {
    let own = pods(own);
    let view = view(job, &own);
    let report = reported(&view);
    let releases: Plan<&Pod> = Plan::of(report.releases());
    let conclusion = conclude(&view, &report, &all_done(&releases.writes()));
    let shown = |write: Option<Write>| write.map(|write| write.to_string()).unwrap_or_default();
    [shown(report.write(job)), releases.to_string(), shown(conclusion.write(job, &report))]
}

#[test]
fn the_status_is_written_then_finalizers_are_removed_then_the_end_is_written_with_its_events() {
    let put = |numbers: &str| format!("update Job/status ns/j: {numbers}");
    let release =
        |name: &str| format!("concurrently\n  patch Pod ns/{name}: it has ended and is in the Job's status");
    let completed = "\n  then event Normal Completed: Job completed";
    let too_many = "\n  then event Warning TooManySucceededPods: Too many succeeded pods running after completion count reached";
    let failed = "\n  then event Warning BackoffLimitExceeded: Job has reached the specified backoff limit";
    let one = json!({"completions": 1});
    #[rustfmt::skip]
    let table = [
        // case             spec                                              pods           report                                      released       conclusion
        ("at work",         json!({}),                                        "a b",         put("2 pods active, 0 succeeded, 0 failed"), String::new(), String::new()),
        ("one has ended",   json!({}),                                        "a:succeeded b c", put("2 pods active, 0 succeeded, 0 failed"), release("a"), put("2 pods active, 1 succeeded, 0 failed")),
        ("success",         one.clone(),                                      "a:succeeded", put("0 pods active, 0 succeeded, 0 failed"), release("a"),  put("0 pods active, 1 succeeded, 0 failed") + completed),
        ("failure",         json!({"backoffLimit": 0}),                       "a:failed",    put("0 pods active, 0 succeeded, 0 failed"), release("a"),  put("0 pods active, 0 succeeded, 1 failed") + failed),
        ("too many",        json!({"completions": 1, "status": {"succeeded": 1}}), "a:succeeded", put("0 pods active, 1 succeeded, 0 failed"), release("a"), put("0 pods active, 2 succeeded, 0 failed") + too_many + completed),
        ("a pod is ending", one,                                              "a:succeeded b:terminating,counted", put("0 pods active, 0 succeeded, 0 failed"), release("a"), put("0 pods active, 1 succeeded, 0 failed")),
    ];
    for (case, spec, pods, report, released, conclusion) in table {
        assert_eq!(published(&job(spec), pods), [report, released, conclusion], "{case}");
    }
}

#[test]
fn a_failed_removal_leaves_the_pod_uncounted_and_the_job_active() {
    let job = job(json!({"completions": 2, "status": {"succeeded": 0}}));
    let own = pods("a:succeeded b:succeeded");
    let view = view(&job, &own);
    let report = reported(&view);
    let releases: Plan<&Pod> = Plan::of(report.releases());
    let mut outcome = all_done(&releases.writes());
    let done = outcome.done.pop().unwrap();
    outcome.failures.push(Failure {
        tag: Some(done.tag),
        verb: None,
        doing: String::new(),
        message: String::new(),
        error: None,
        retry: Retry::Backoff,
        is_expected: false,
    });
    let conclusion = conclude(&view, &report, &outcome);
    let uncounted = conclusion.status.uncounted_terminated_pods.unwrap();
    assert_eq!((conclusion.status.succeeded, uncounted.succeeded), (1, vec!["uid-b".into()]));
    assert_eq!(conclusion.end, None);
}

#[test]
fn pods_that_could_not_be_deleted_delay_the_end() {
    let job = job(json!({"backoffLimit": 0}));
    let own = pods("a:failed b");
    let view = view(&job, &own);
    let tally = Tally::of(&view);
    let outcome = Outcome {
        done: vec![],
        failures: vec![Failure {
            tag: Some(PodWrite::Delete(&own[1])),
            verb: None,
            doing: String::new(),
            message: String::new(),
            error: None,
            retry: Retry::Backoff,
            is_expected: false,
        }],
    };
    let report = report(&view, &tally, verdict(&view, &tally), &outcome);
    assert_eq!((report.end, report.status.active), (None, 1));
    assert_eq!(types(&report.status), Vec::<&str>::new());
}

#[test]
fn gates_decide_how_a_job_ends_and_what_its_status_counts() {
    let no_policy = Features { replacement_policy: false, ..ALL };
    let neither = Features { managed_by: false, ..no_policy };
    let failed = json!({"completions": 2, "parallelism": 2, "backoffLimit": 0});
    let policy = json!({"completions": 2, "parallelism": 2, "backoffLimit": 0, "podFailurePolicy": {"rules": [
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]}});
    #[rustfmt::skip]
    let table = [
        // gates     spec           pods                   conditions        counted  waits for
        (ALL,        &failed,       "a:failed b:running",  "FailureTarget",  Some(1), 1),
        (no_policy,  &failed,       "a:failed b:running",  "FailureTarget",  None,    1),
        (neither,    &failed,       "a:failed b:running",  "",               None,    0),
        (neither,    &policy,       "a:failed,exit=1 b:running",  "FailureTarget",  None,    0),
    ];
    for (features, spec, own, conditions, counted, waits_for) in table {
        let (job, own) = (job(spec.clone()), pods(own));
        let report = reported(&View { features, ..view(&job, &own) });
        assert_eq!(
            (types(&report.status).join(" "), report.status.terminating, report.unended),
            (conditions.to_owned(), counted, waits_for),
            "{features:?} {spec}"
        );
    }
}

#[test]
fn without_its_gate_the_replacement_policy_of_a_job_is_ignored() {
    let job = job(json!({"podReplacementPolicy": "Failed"}));
    let only_failed = |replacement_policy| {
        View { features: Features { replacement_policy, ..ALL }, ..view(&job, &[]) }.replaces_only_failed()
    };
    assert_eq!([only_failed(true), only_failed(false)], [true, false]);
}

#[test]
fn without_its_gate_a_job_has_no_other_manager() {
    let job = job(json!({"managedBy": "example.com/other"}));
    let elsewhere = |managed_by| Features { managed_by, ..ALL }.managed_elsewhere(&job).map(str::to_owned);
    assert_eq!([elsewhere(true), elsewhere(false)], [Some("example.com/other".to_owned()), None]);
}

#[test]
fn creations_are_counted_one_by_one() {
    let own = pods("a");
    let (create, delete) = (PodWrite::Create(NewPod::default()), PodWrite::Delete(&own[0]));
    let done = |tag, answer| Done { tag, answer };
    let failure = |tag| Failure {
        tag: Some(tag),
        verb: None,
        doing: String::new(),
        message: String::new(),
        error: None,
        retry: Retry::Backoff,
        is_expected: false,
    };
    let terminating = || Answer::Ignored(Error::Status(Box::default()));
    let written = || Answer::Written(None);
    let outcome = Outcome {
        done: vec![done(create, written()), done(create, terminating()), done(delete, written())],
        failures: vec![failure(create), failure(create), failure(delete)],
    };
    assert_eq!(creations(&outcome), (1, 2));
}
