//! Which pods go, in which order, and how they end.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Node, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::plan::{Reason, View, ending, missing_nodes, plan};

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

/// The nodes of this world: `up`, `down` (not ready), `out` (not ready, out of service), `back` (ready, still tainted).
fn node(name: &str) -> Option<Arc<Node>> {
    let (ready, tainted) = match name {
        "up" => ("True", false),
        "down" => ("Unknown", false),
        "out" => ("False", true),
        "back" => ("True", true),
        _ => return None,
    };
    let taints = if tainted {
        json!([{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}])
    } else {
        json!([])
    };
    let node = json!({"metadata": {"name": name}, "spec": {"taints": taints},
        "status": {"conditions": [{"type": "Ready", "status": ready}]}});
    Some(Arc::new(serde_json::from_value(node).unwrap()))
}

fn planned(pods: &[Arc<Pod>], threshold: i32, gone: &str) -> String {
    let gone: BTreeSet<SmolStr> = gone.split_whitespace().map(Into::into).collect();
    let planned = plan(&View { pods, threshold, node: &node, gone: &gone });
    let told: Vec<String> =
        planned.iter().map(|(pod, reason)| format!("{} {}", pod.metadata.name, reason.label())).collect();
    told.join(", ")
}

#[test]
fn pods_that_nobody_else_deletes_go() {
    #[rustfmt::skip]
    let table = [
        // case                                    threshold  pods                                             gone   planned
        ("all is well",                                 100,  "a:on=up b",                                     "",    ""),
        ("finished ones stay under the threshold",        2,  "a:Succeeded b:Failed",                          "",    ""),
        ("over it the oldest go",                         1,  "a:Succeeded,age=1 b:Failed,age=3 c:Failed,age=2", "",  "b terminated, c terminated"),
        ("evicted ones before them",                      2,  "a:Failed,age=9 b:evicted,age=1 c:Succeeded",    "",    "b terminated"),
        ("by name if equally old",                        1,  "b:Failed a:Failed",                             "",    "a terminated"),
        ("running and unknown ones never",                1,  "a:Running b:Unknown c:Pending d:Failed",        "",    ""),
        ("no threshold, no limit",                        0,  "a:Failed b:Failed",                             "",    ""),
        ("a negative one neither",                       -1,  "a:Failed b:Failed",                             "",    ""),
        ("going on a node out of service",              100,  "a:on=out,deleting",                             "",    "a out-of-service"),
        ("not going on it",                             100,  "a:on=out",                                      "",    ""),
        ("a node that is only down",                    100,  "a:on=down,deleting",                            "",    ""),
        ("a node that is ready again",                  100,  "a:on=back,deleting",                            "",    ""),
        ("the node is gone",                            100,  "a:on=x b:on=up",                                "x",   "a orphaned"),
        ("the node is missing, not known to be gone",   100,  "a:on=x,deleting",                               "",    ""),
        ("never bound and going",                       100,  "a:Pending,deleting b:Pending",                  "",    "a unscheduled"),
        ("one reason each",                               1,  "a:Failed,on=x,age=5 b:Failed,on=x c:Failed",    "x",   "a terminated, b terminated"),
    ];
    for (case, threshold, pods, gone, want) in table {
        let pods: Vec<_> = pods.split_whitespace().map(pod).collect();
        assert_eq!(planned(&pods, threshold, gone), want, "{case}");
    }
}

#[test]
fn nodes_that_pods_name_and_nobody_knows_are_missing() {
    let pods: Vec<_> = ["a:on=x", "b:on=up", "c", "d:on=y", "e:on=x"].map(pod).into();
    let missing = missing_nodes(&pods, |name| node(name).is_some());
    assert_eq!(missing.iter().map(SmolStr::as_str).collect::<Vec<_>>(), ["x", "y"]);
}

#[test]
fn a_pod_ends_before_it_goes_and_says_why_if_its_node_is_gone() {
    let status = |text: &str, reason| ending(&pod(text), reason, now()).map(|patch| patch["status"].clone());
    let failed = json!({"phase": "Failed", "observedGeneration": 3});
    assert_eq!(status("a:Pending", Reason::Unscheduled), Some(failed));
    assert_eq!(status("a:Succeeded,on=x", Reason::Orphaned), None);
    let orphaned = status("a:on=x", Reason::Orphaned).unwrap();
    assert_eq!(
        orphaned["conditions"],
        json!([{"type": "DisruptionTarget", "status": "True", "observedGeneration": 3,
            "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    );
    let patch: Value = ending(&pod("a:on=x"), Reason::Orphaned, now()).unwrap();
    assert_eq!(patch["metadata"], json!({"uid": "a"}), "and no other pod of its name");
}

proptest! {
    #[test]
    fn exactly_the_surplus_goes_and_nobody_twice(ended in 0..40usize, running in 0..10usize, threshold in -5..40i32) {
        let pods: Vec<_> = (0..ended).map(|n| pod(&format!("e{n}:Failed,age={}", n * 7 % 11)))
            .chain((0..running).map(|n| pod(&format!("r{n}:on=up"))))
            .collect();
        let gone = BTreeSet::new();
        let planned = plan(&View { pods: &pods, threshold, node: &node, gone: &gone });
        let kept = usize::try_from(threshold).ok().filter(|t| *t > 0).unwrap_or(usize::MAX);
        prop_assert_eq!(planned.len(), ended.saturating_sub(kept));
        let names: BTreeSet<_> = planned.iter().map(|(pod, _)| pod.metadata.name.clone()).collect();
        prop_assert_eq!(names.len(), planned.len());
        prop_assert!(planned.iter().all(|(pod, _)| pod.metadata.name.starts_with('e')));
    }
}
