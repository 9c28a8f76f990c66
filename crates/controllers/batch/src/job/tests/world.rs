//! Builds a snapshot from a line of text.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Job, Timestamp};
use flyball_client::Verb;
use flyball_runtime::plan::{Answer, Done};
use flyball_runtime::{Outcome, Write};
use serde_json::{Value, json};

use crate::job::backoff::Backoff;
use crate::job::invariants;
use crate::job::plan::{NewPod, PodWrite, plan};
use crate::job::status::{Report, report};
use crate::job::tally::Tally;
use crate::job::verdict::{time_to_deadline, verdict};
use crate::job::view::{self, Features, View, in_order};

/// The time of all tests: 2026-01-01T00:00:00Z.
pub(super) fn now() -> Timestamp {
    Timestamp::from_second(1_767_225_600).unwrap()
}

pub(super) fn ago(seconds: i64) -> String {
    flyball_api::time::format_seconds(Timestamp::from_second(now().as_second() - seconds).unwrap())
}

/// A pod from `name:word,word`. Words: `pending`, `running`, `succeeded`, `failed`, `unscheduled`, `terminating`,
/// `ready`, `index=N`, `failures=N`, `ignored=N`, `exit=CODE`, `ended=SECONDS` ago, `disrupted`, `restarts=N`,
/// `counted` (without finalizer), `orphan` (adopted just now), `owner=UID`, `label=VALUE`, `age=SECONDS`.
pub(super) fn pod(text: &str) -> Arc<Pod> {
    let (name, words) = text.split_once(':').unwrap_or((text, ""));
    let owner = |uid: &str| {
        let name = uid.replace("uid-", "");
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": true}])
    };
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": "1",
            "creationTimestamp": ago(3600), "labels": {"app": "work"}, "annotations": {},
            "finalizers": [view::TRACKING_FINALIZER], "ownerReferences": owner("uid-j")},
        "spec": {"nodeName": "node-1"},
        "status": {"phase": "Running"},
    });
    for word in words.split(',').filter(|word| !word.is_empty()) {
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        let number = || value.parse::<i64>().unwrap_or(0);
        let end = |code: i64, seconds: i64| json!([{"name": "c", "state": {"terminated": {"exitCode": code, "finishedAt": ago(seconds)}}}]);
        match word {
            "pending" | "running" | "succeeded" | "failed" => {
                pod["status"]["phase"] = json!(word[..1].to_uppercase() + &word[1..]);
            }
            "unscheduled" => {
                pod["spec"]["nodeName"] = json!("");
                pod["status"]["phase"] = json!("Pending");
            }
            "terminating" => pod["metadata"]["deletionTimestamp"] = json!(ago(1)),
            "ready" => {
                let condition = json!({"type": "Ready", "status": "True", "lastTransitionTime": ago(60)});
                pod["status"]["conditions"] = json!([condition]);
            }
            "disrupted" => {
                let condition = json!({"type": "DisruptionTarget", "status": "True"});
                pod["status"]["conditions"] = json!([condition]);
            }
            "index" => pod["metadata"]["annotations"][view::COMPLETION_INDEX] = json!(value),
            "failures" => pod["metadata"]["annotations"][view::INDEX_FAILURES] = json!(value),
            "ignored" => pod["metadata"]["annotations"][view::INDEX_IGNORED_FAILURES] = json!(value),
            "exit" => pod["status"]["containerStatuses"] = end(number(), 3600),
            "ended" => pod["status"]["containerStatuses"] = end(1, number()),
            "restarts" => {
                pod["status"]["containerStatuses"] = json!([{"name": "c", "restartCount": number()}]);
            }
            "age" => pod["metadata"]["creationTimestamp"] = json!(ago(number())),
            "label" => pod["metadata"]["labels"] = json!({"app": value}),
            "counted" => pod["metadata"]["finalizers"] = json!([]),
            "owner" => pod["metadata"]["ownerReferences"] = owner(value),
            "orphan" => {
                pod["metadata"]["ownerReferences"] = json!([]);
                pod["metadata"]["finalizers"] = json!([]);
            }
            other => panic!("unknown word {other}"),
        }
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

pub(super) fn pods(text: &str) -> Vec<Arc<Pod>> {
    in_order(text.split_whitespace().map(pod).collect())
}

/// A Job named `j` with defaults for all fields that are not given; `"status"` goes to the status.
pub(super) fn job(spec: Value) -> Job {
    let mut object = json!({
        "metadata": {"name": "j", "namespace": "ns", "uid": "uid-j", "resourceVersion": "1", "generation": 1},
        "spec": {"parallelism": 2, "completions": 5, "backoffLimit": 6, "completionMode": "NonIndexed",
            "podReplacementPolicy": "TerminatingOrFailed", "selector": {"matchLabels": {"app": "work"}},
            "template": {"metadata": {"labels": {"app": "work"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
        "status": {"startTime": ago(100)},
    });
    for (field, value) in spec.as_object().unwrap() {
        match field.as_str() {
            "status" => {
                for (field, value) in value.as_object().unwrap() {
                    object["status"][field] = value.clone();
                }
            }
            "deleting" => object["metadata"]["deletionTimestamp"] = json!(ago(1)),
            "restartPolicy" => object["spec"]["template"]["spec"]["restartPolicy"] = value.clone(),
            _ => object["spec"][field] = value.clone(),
        }
    }
    serde_json::from_value(object).unwrap()
}

pub(super) fn indexed(spec: Value) -> Job {
    let mut with_mode = json!({"completionMode": "Indexed"});
    for (field, value) in spec.as_object().unwrap() {
        with_mode[field] = value.clone();
    }
    job(with_mode)
}

/// As in the current version.
pub(super) const ALL: Features =
    Features { managed_by: true, replacement_policy: true, suspension_clears_start: true };

pub(super) fn view<'a>(job: &'a Job, pods: &'a [Arc<Pod>]) -> View<'a> {
    View { job, pods, backoff: Backoff::default(), features: ALL, now: now() }
}

/// The reason of the end and the plan, as text: `stop` for pods that are deleted and count, `discard` for pods whose
/// finalizer is removed first.
pub(super) fn decided(job: &Job, own: &str) -> (String, String) {
    let own = pods(own);
    let view = view(job, &own);
    let tally = Tally::of(&view);
    let end = verdict(&view, &tally);
    let (_, plan) = plan(&view, &tally, end.as_ref());
    invariants::check_plan(&view, &tally, &plan).unwrap();
    let mut released = false;
    let mut words = vec![];
    for write in plan.writes() {
        let word = match write.tag {
            PodWrite::Release(_) => {
                released = true;
                continue;
            }
            PodWrite::Delete(pod) => pod.metadata.name.to_string(),
            PodWrite::Create(NewPod { index: None, .. }) => "any".to_owned(),
            PodWrite::Create(NewPod { index: Some(index), failures }) => match failures {
                None => index.to_string(),
                Some((counted, 0)) => format!("{index}:{counted}"),
                Some((counted, ignored)) => format!("{index}:{counted}+{ignored}"),
            },
        };
        words.push(word);
    }
    let verb = match plan.writes().first().map(|write| write.verb()) {
        Some(Verb::Create) => "create",
        Some(_) if released => "discard",
        Some(_) => "stop",
        None => "",
    };
    let deadline = time_to_deadline(&view);
    let wait = plan.requeue.filter(|wait| words.is_empty() && Some(*wait) != deadline);
    let planned = match wait {
        Some(wait) => format!("wait {}", wait.as_secs()),
        None => format!("{verb} {}", words.join(" ")).trim().to_owned(),
    };
    let end = end.map(|end| format!("{}{}", if end.is_news { "" } else { "known " }, end.reason));
    (end.unwrap_or_default(), planned)
}

/// The whole plan, as it is displayed.
pub(super) fn described(job: &Job, own: &str) -> String {
    let own = pods(own);
    let view = view(job, &own);
    let tally = Tally::of(&view);
    plan(&view, &tally, verdict(&view, &tally).as_ref()).1.to_string()
}

/// The outcome of a plan all of whose writes were made.
pub(super) fn all_done<T: Copy>(writes: &[&Write<T>]) -> Outcome<T> {
    let done = |write: &&Write<T>| Done { tag: write.tag, answer: Answer::Written(None) };
    Outcome { done: writes.iter().map(done).collect(), failures: vec![] }
}

/// The report after a plan was carried out.
pub(super) fn reported<'a>(view: &View<'a>) -> Report<'a> {
    let tally = Tally::of(view);
    let end = verdict(view, &tally);
    let (_, plan) = plan(view, &tally, end.as_ref());
    let report = report(view, &tally, end, &all_done(&plan.writes()));
    invariants::check_report(view, &report).unwrap();
    report
}
