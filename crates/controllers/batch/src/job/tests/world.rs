//! A snapshot from a line of text.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Job, Timestamp};
use serde_json::{Value, json};

use crate::job::backoff::Backoff;
use crate::job::invariants;
use crate::job::plan::{Step, plan};
use crate::job::status::{Outcome, Report, report};
use crate::job::tally::Tally;
use crate::job::verdict::{End, completed, verdict};
use crate::job::view::{self, View, in_order};

/// When all of this happens: 2026-01-01T00:00:00Z.
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

/// A Job named `j` with the given fields laid over sensible ones; `"status"` goes to the status.
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

/// An Indexed one.
pub(super) fn indexed(spec: Value) -> Job {
    let mut with_mode = json!({"completionMode": "Indexed"});
    for (field, value) in spec.as_object().unwrap() {
        with_mode[field] = value.clone();
    }
    job(with_mode)
}

pub(super) fn view<'a>(job: &'a Job, pods: &'a [Arc<Pod>]) -> View<'a> {
    View { job, pods, backoff: Backoff::default(), suspension_clears_start: true, now: now() }
}

/// The verdict and the step, in words.
pub(super) fn decided(job: &Job, own: &str) -> (String, String) {
    let own = pods(own);
    let view = view(job, &own);
    let tally = Tally::of(&view);
    let end = verdict(&view, &tally);
    let step = plan(&view, &tally, end.as_ref());
    invariants::check_step(&view, &tally, &step).unwrap();
    let names =
        |pods: &[&Pod]| pods.iter().map(|pod| pod.metadata.name.to_string()).collect::<Vec<_>>().join(" ");
    let told = match &step {
        Step::Nothing => String::new(),
        Step::Stop(pods) => format!("stop {}", names(pods)),
        Step::Discard(pods) => format!("discard {}", names(pods)),
        Step::Wait(wait) => format!("wait {}", wait.as_secs()),
        Step::Create(new) => {
            let words = new.iter().map(|pod| match (pod.index, pod.failures) {
                (None, _) => "any".to_owned(),
                (Some(index), None) => index.to_string(),
                (Some(index), Some((counted, 0))) => format!("{index}:{counted}"),
                (Some(index), Some((counted, ignored))) => format!("{index}:{counted}+{ignored}"),
            });
            format!("create {}", words.collect::<Vec<_>>().join(" "))
        }
    };
    let end = end.map(|end| format!("{}{}", if end.is_news { "" } else { "known " }, end.reason));
    (end.unwrap_or_default(), told)
}

/// The report on a Job whose step went as planned.
pub(super) fn reported<'a>(view: &View<'a>) -> (Report<'a>, Option<End>) {
    let tally = Tally::of(view);
    let mut end = verdict(view, &tally);
    let step = plan(view, &tally, end.as_ref());
    let mut outcome = Outcome {
        active: view::number(tally.active.len()),
        ready: tally.ready,
        terminating: tally.terminating,
    };
    match &step {
        Step::Stop(pods) | Step::Discard(pods) => {
            outcome.active -= view::number(pods.len());
            outcome.terminating += view::number(pods.len());
            outcome.ready -= view::number(pods.iter().filter(|pod| pod.is_ready()).count());
        }
        Step::Create(new) => outcome.active += view::number(new.len()),
        Step::Nothing | Step::Wait(_) => {}
    }
    if end.is_none() {
        end = completed(view, &tally, outcome.active);
    }
    let may_switch = end.is_none() && !view.job.metadata.is_deleting();
    let report = report(view, &tally, outcome, end.as_ref(), may_switch);
    invariants::check_report(view, &report).unwrap();
    (report, end)
}
