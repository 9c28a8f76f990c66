use std::sync::Arc;

use flyball_api::Workload;
use flyball_cache::{Change, Origin, Store};
use serde_json::json;

use super::world::{job, pod};
use crate::job::triggers::{Orphans, Urgency, job_changed, made_for_job, may_leave_orphans, pod_changed};

/// The Jobs to sync after a change of a pod, and `!` if its finalizer is to be removed. `j` is active, `done` has ended.
fn synced(old: &str, new: &str) -> String {
    let named = |name: &str, status: serde_json::Value| {
        let mut job = job(json!({"status": status}));
        job.metadata.name = name.into();
        job.metadata.uid = format!("uid-{name}").as_str().into();
        job
    };
    let ended = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    let jobs = Store::from_iter([named("j", json!({})), named("done", ended)]);
    let present = |text: &str| (!text.is_empty()).then(|| pod(text));
    let (old, new) = (present(old), present(new));
    let change = Change { old: old.as_ref(), new: new.as_ref(), origin: Origin::Watch };
    let synced = pod_changed(&change, &jobs);
    let mut words: Vec<_> = synced.jobs.iter().map(|key| key.name.to_string()).collect();
    words.sort();
    words.extend(synced.orphan.map(|orphan| {
        assert_eq!(orphan, Orphans::Pod(new.as_ref().unwrap().metadata.key()));
        "!".to_owned()
    }));
    words.join(" ")
}

#[test]
fn a_pod_syncs_its_job_or_loses_its_finalizer_if_no_job_will_count_it() {
    #[rustfmt::skip]
    let table = [
        // case                              before                after                                  synced
        ("made",                             "",                   "a",                                   "j"),
        ("changed",                          "a",                  "a:ready",                             "j"),
        ("dying",                            "a",                  "a:terminating",                       "j"),
        ("gone",                             "a",                  "",                                    "j"),
        ("of a Job that is gone",            "",                   "a:owner=uid-old",                     ""),
        ("dying, of a Job that is gone",     "",                   "a:owner=uid-old,terminating",         "!"),
        ("dying, of a Job that has ended",   "",                   "a:owner=uid-done,terminating",        "!"),
        ("the same, counted",                "",                   "a:owner=uid-done,terminating,counted", ""),
        ("handed over",                      "a:owner=uid-done",   "a",                                   "done j"),
        ("let go by the collector",          "a",                  "a:orphan,label=other",                "j"),
        ("an orphan that Jobs match",        "",                   "a:orphan",                            "done j"),
        ("an orphan that no Job matches",    "",                   "a:orphan,label=other",                ""),
        ("an orphan that only got ready",    "a:orphan",           "a:orphan,ready",                      ""),
    ];
    for (case, before, after, want) in table {
        assert_eq!(synced(before, after), want, "{case}");
    }
}

#[test]
fn a_new_spec_is_synced_at_once_and_a_status_later() {
    let (plain, mut changed) = (job(json!({})), job(json!({})));
    changed.metadata.generation = 2;
    let ended = job(json!({"status": {"conditions": [{"type": "Failed", "status": "True"}]}}));
    let (plain, changed, ended) = (plain.into(), changed.into(), ended.into());
    let urgency = |old, new| job_changed(&Change { old, new, origin: Origin::Watch });
    assert_eq!(urgency(None, Some(&plain)), Urgency::Now);
    assert_eq!(urgency(Some(&plain), Some(&plain)), Urgency::Batched);
    assert_eq!(urgency(Some(&plain), Some(&changed)), Urgency::Now);
    assert_eq!(urgency(Some(&plain), Some(&ended)), Urgency::Orphans);
    assert_eq!(urgency(Some(&plain), None), Urgency::Now);
}

#[test]
fn only_an_ended_or_deleted_job_may_leave_orphans() {
    let plain = job(json!({})).into();
    let ended = job(json!({"status": {"conditions": [{"type": "Failed", "status": "True"}]}})).into();
    let leaves = |old, new| may_leave_orphans(&Change { old, new, origin: Origin::Watch });
    assert!(!leaves(None, Some(&ended)), "its pods were free before it ended");
    assert!(!leaves(Some(&plain), Some(&plain)));
    assert!(leaves(Some(&plain), Some(&ended)));
    assert!(leaves(Some(&ended), Some(&ended)), "a user may have added one");
    assert!(leaves(Some(&plain), None));
}

#[test]
fn a_new_workload_syncs_the_job_that_controls_it() {
    let workload = |kind: &str| {
        let owner = json!({"apiVersion": "v", "kind": kind, "name": "j", "uid": "uid-j", "controller": true});
        let metadata = json!({"name": "w", "namespace": "ns", "ownerReferences": [owner]});
        Arc::new(serde_json::from_value::<Workload>(json!({"metadata": metadata})).unwrap())
    };
    let (of_job, of_other) = (workload("Job"), workload("Other"));
    let synced = |old, new, origin| made_for_job(&Change { old, new, origin }).map(|key| key.to_string());
    assert_eq!(synced(None, Some(&of_job), Origin::Watch).as_deref(), Some("ns/j"));
    assert_eq!(synced(None, Some(&of_other), Origin::Watch), None);
    assert_eq!(synced(None, Some(&of_job), Origin::Initial), None);
    assert_eq!(synced(Some(&of_job), Some(&of_job), Origin::Watch), None);
    assert_eq!(synced(Some(&of_job), None, Origin::Watch), None);
}
