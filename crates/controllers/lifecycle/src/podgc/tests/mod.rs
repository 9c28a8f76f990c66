//! Which pods are deleted, in which order, and how they are marked before.

mod metrics;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Node, Timestamp};
use flyball_client::{ApiStatus, Error};
use flyball_runtime::plan::Operation;
use flyball_runtime::{Plan, Write};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::invariants::check;
use super::plan::{Existence, Step, Tag, View, nodes_of, plan};

/// A pod from `name:word,word`. Words: a phase, `evicted`, `deleting`, `on=NODE`, `age=SECONDS`.
fn pod(text: &str) -> Arc<Pod> {
    let (name, words) = text.split_once(':').unwrap_or((text, ""));
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "n", "uid": name, "generation": 3, "creationTimestamp": time(0)},
        "spec": {},
        "status": {"phase": "Running"},
    });
    for word in words.split(',').filter(|word| !word.is_empty()) {
        match word.split_once('=').unwrap_or((word, "")) {
            ("on", node) => pod["spec"]["nodeName"] = json!(node),
            ("age", seconds) => {
                pod["metadata"]["creationTimestamp"] = json!(time(-seconds.parse::<i64>().unwrap()));
            }
            ("deleting", _) => pod["metadata"]["deletionTimestamp"] = json!(time(0)),
            ("evicted", _) => pod["status"] = json!({"phase": "Failed", "reason": "Evicted"}),
            (phase, _) => pod["status"]["phase"] = json!(phase),
        }
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn time(second: i64) -> String {
    flyball_api::time::format_seconds(Timestamp::from_second(now().as_second() + second).unwrap())
}

fn now() -> Timestamp {
    Timestamp::from_second(1_767_225_600).unwrap()
}

fn node(name: &str, ready: &str, is_tainted: bool) -> Arc<Node> {
    let taint = json!({"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"});
    let taints: Vec<Value> = is_tainted.then_some(taint).into_iter().collect();
    let node = json!({"metadata": {"name": name}, "spec": {"taints": taints},
        "status": {"conditions": [{"type": "Ready", "status": ready}]}});
    Arc::new(serde_json::from_value(node).unwrap())
}

/// These pods on four nodes: `up`, `down` (not ready), `out` (not ready, out of service), `back` (ready, still tainted).
fn view(pods: Vec<Arc<Pod>>, threshold: i32, gone: &str) -> View {
    let nodes =
        [("up", "True", false), ("down", "Unknown", false), ("out", "False", true), ("back", "True", true)];
    let nodes: BTreeMap<_, _> =
        nodes.map(|(name, ready, is_tainted)| (name.into(), node(name, ready, is_tainted))).into();
    let gone = gone.split_whitespace().map(Into::into).collect();
    View { pods, threshold, nodes, gone, tracks_generation: true, now: now() }
}

fn planned(pods: Vec<Arc<Pod>>, threshold: i32, gone: &str) -> Plan<Tag> {
    let view = view(pods, threshold, gone);
    let plan = plan(&view);
    assert_eq!(check(&view, &plan), Ok(()));
    plan
}

fn pods(text: &str) -> Vec<Arc<Pod>> {
    text.split_whitespace().map(pod).collect()
}

/// The writes, as `mark NAME` and `delete NAME REASON`.
fn shown(plan: &Plan<Tag>) -> String {
    let show = |write: &&Write<Tag>| match write.tag.step {
        Step::Mark => format!("mark {}", write.key.name),
        Step::Delete => format!("delete {} {}", write.key.name, write.tag.reason.label()),
    };
    plan.writes().iter().map(show).collect::<Vec<_>>().join(", ")
}

#[test]
fn pods_that_no_other_component_deletes_are_deleted() {
    #[rustfmt::skip]
    let table = [
        // case                                    threshold  pods                                             gone   plan
        ("all is well",                                 100,  "a:on=up b",                                     "",    ""),
        ("finished ones stay under the threshold",        2,  "a:Succeeded b:Failed",                          "",    ""),
        ("over it the oldest go",                         1,  "a:Succeeded,age=1 b:Failed,age=3 c:Failed,age=2", "",  "delete b terminated, delete c terminated"),
        ("evicted ones before them",                      2,  "a:Failed,age=9 b:evicted,age=1 c:Succeeded",    "",    "delete b terminated"),
        ("by name if equally old",                        1,  "b:Failed a:Failed",                             "",    "delete a terminated"),
        ("running and unknown ones never",                1,  "a:Running b:Unknown c:Pending d:Failed",        "",    ""),
        ("no threshold, no limit",                        0,  "a:Failed b:Failed",                             "",    ""),
        ("a negative one neither",                       -1,  "a:Failed b:Failed",                             "",    ""),
        ("terminating on a node out of service",        100,  "a:on=out,deleting",                             "",    "mark a, delete a out-of-service"),
        ("not terminating on it",                       100,  "a:on=out",                                      "",    ""),
        ("a node that is only down",                    100,  "a:on=down,deleting",                            "",    ""),
        ("a node that is ready again",                  100,  "a:on=back,deleting",                            "",    ""),
        ("the node is gone",                            100,  "a:on=x b:on=up",                                "x",   "mark a, delete a orphaned"),
        ("a finished pod is not marked",                100,  "a:on=x,Succeeded",                              "x",   "delete a orphaned"),
        ("the node is missing, not known to be gone",   100,  "a:on=x,deleting",                               "",    ""),
        ("never bound and terminating",                 100,  "a:Pending,deleting b:Pending",                  "",    "mark a, delete a unscheduled"),
        ("one reason each",                               1,  "a:Failed,on=x,age=5 b:Failed,on=x c:Failed",    "x",   "delete a terminated, delete b terminated"),
    ];
    for (case, threshold, text, gone, want) in table {
        assert_eq!(shown(&planned(pods(text), threshold, gone)), want, "{case}");
    }
}

#[test]
fn each_pod_is_marked_before_it_is_deleted_and_all_at_once() {
    let plan = planned(pods("a:on=x b:Pending,deleting"), 100, "x");
    let want = "concurrently
  in sequence
    patch Pod/status n/a: its node no longer exists
    delete Pod n/a: its node no longer exists
  in sequence
    patch Pod/status n/b: it is terminating, and was never bound to a node
    delete Pod n/b: it is terminating, and was never bound to a node";
    assert_eq!(plan.to_string(), want);
    for write in plan.writes().into_iter().filter(|write| write.tag.step == Step::Delete) {
        let Operation::Delete(options) = &write.operation else { panic!("{write}") };
        assert_eq!((options.grace_period, options.uid.is_some()), (Some(0), true), "{write}");
    }
}

#[test]
fn a_pod_is_marked_as_failed_with_a_condition_if_its_node_is_gone() {
    let patch = |text: &str| planned(pods(text), 100, "x").writes()[0].body().unwrap();
    let failed = json!({"phase": "Failed", "observedGeneration": 3});
    assert_eq!(patch("a:Pending,deleting")["status"], failed);
    let orphaned = patch("a:on=x");
    assert_eq!(
        orphaned["status"]["conditions"],
        json!([{"type": "DisruptionTarget", "status": "True", "observedGeneration": 3,
            "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    );
    assert_eq!(orphaned["metadata"], json!({"uid": "a"}), "and no other pod of its name");
}

#[test]
fn a_plan_for_other_pods_breaks_invariants() {
    #[rustfmt::skip]
    let table = [
        // the plan for                   in the case of                    breaks
        ("a:on=x",                        "a:on=up",                        "n/a is not orphaned"),
        ("a:on=x",                        "b:on=x",                         "n/a does not exist"),
        ("a:on=x",                        "a:on=x,Failed",                  "n/a gets [Mark, Delete]"),
        ("a:Failed,on=x",                 "a:on=x",                         "n/a gets [Delete]"),
        ("a:Pending,deleting",            "a:Pending",                      "n/a is not unscheduled"),
        ("a:on=out,deleting",             "a:on=back,deleting",             "n/a is not out-of-service"),
        ("a:Failed b:Failed c:Failed",    "a:Failed b:Failed c:Running",    "1 of 2 finished pods are deleted, though 2 may be kept"),
    ];
    for (planned_for, actual, want) in table {
        let wrong = plan(&view(pods(planned_for), 2, "x"));
        let found = check(&view(pods(actual), 2, "x"), &wrong).unwrap_err();
        assert!(found.contains(want), "{planned_for} / {actual}: {found}");
    }
    let (before, mut after) = (pods("a:on=x"), pods("a:on=x"));
    Arc::make_mut(&mut after[0]).metadata.uid = "another".into();
    let found = check(&view(after, 2, "x"), &plan(&view(before, 2, "x"))).unwrap_err();
    assert_eq!(found, "n/a is not deleted by its uid, without a grace period");
}

proptest! {
    #[test]
    fn exactly_the_surplus_is_deleted_and_no_pod_twice(ended in 0..40usize, running in 0..10usize, threshold in -5..40i32) {
        let pods: Vec<_> = (0..ended).map(|n| pod(&format!("e{n}:Failed,age={}", n * 7 % 11)))
            .chain((0..running).map(|n| pod(&format!("r{n}:on=up"))))
            .collect();
        let plan = planned(pods, threshold, "");
        let deleted: Vec<_> = plan.writes().iter().map(|write| write.key.name.clone()).collect();
        let kept = usize::try_from(threshold).ok().filter(|t| *t > 0).unwrap_or(usize::MAX);
        prop_assert_eq!(deleted.len(), ended.saturating_sub(kept));
        prop_assert_eq!(deleted.iter().collect::<BTreeSet<_>>().len(), deleted.len());
        prop_assert!(deleted.iter().all(|name| name.starts_with('e')));
    }
}

#[test]
fn only_a_node_that_the_server_does_not_have_is_gone() {
    let status = |code: u16, reason: &str| {
        Err(Error::Status(Box::new(ApiStatus { code, reason: reason.into(), ..ApiStatus::default() })))
    };
    let lost = Error::OutcomeUnknown { what: "get".into(), source: "reset".into(), until: None };
    #[rustfmt::skip]
    let table = [
        (Ok(Node::default()),               "Exists"),
        (status(404, "NotFound"),           "Gone"),
        (status(403, "Forbidden"),          "Unknown"),
        (status(503, "ServiceUnavailable"), "Unknown"),
        (Err(lost),                         "Unknown"),
    ];
    for (answer, want) in table {
        let found = format!("{:?}", Existence::of(answer));
        assert!(found.starts_with(want), "{found} is not {want}");
    }
}

#[test]
fn each_node_is_looked_up_once() {
    let pods = ["a:on=up", "b:on=down", "c:on=up", "d:"].map(pod);
    assert_eq!(nodes_of(&pods).into_iter().map(|node| node.as_str()).collect::<Vec<_>>(), ["down", "up"]);
}
