//! Which groups are reconciled, and which lose the finalizer.

use std::sync::Arc;

use flyball_api::PartialObject;
use flyball_api::pod::Pod;
use flyball_cache::{Change, Origin};
use serde_json::json;

use super::FINALIZER;
use super::plan::{View, plan};
use super::triggers::pod_changed;

fn pod(uid: &str, group: &str, phase: &str) -> Arc<Pod> {
    let spec = if group.is_empty() { json!({}) } else { json!({"schedulingGroup": {"podGroupName": group}}) };
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "p", "uid": uid}, "spec": spec, "status": {"phase": phase},
    }))
    .unwrap()
}

#[test]
fn a_group_is_reconciled_when_one_of_its_pods_finishes_or_is_gone() {
    let running = || Some(pod("1", "g", "Running"));
    #[rustfmt::skip]
    let table = [
        // case                    old                            new                             groups
        ("created",                None,                          running(),                      ""),
        ("runs",                   Some(pod("1", "g", "Pending")), running(),                     ""),
        ("succeeds",               running(),                     Some(pod("1", "g", "Succeeded")), "ns/g"),
        ("fails",                  running(),                     Some(pod("1", "g", "Failed")),  "ns/g"),
        ("deleted",                running(),                     None,                           "ns/g"),
        ("another takes its name", running(),                     Some(pod("2", "h", "Pending")), "ns/g"),
        ("of no group",            Some(pod("1", "", "Running")), None,                           ""),
    ];
    for (case, old, new, want) in table {
        let change = Change { old: old.as_ref(), new: new.as_ref(), origin: Origin::Watch };
        let got: Vec<String> = pod_changed(&change).iter().map(ToString::to_string).collect();
        assert_eq!(got.join(" "), want, "{case}");
    }
}

#[test]
fn the_finalizer_goes_once_the_group_is_deleted_and_no_pod_is_active() {
    let release = "update PodGroup ns/g: none of its pods is active any more";
    let group = |deleting: bool, finalizers: &[&str]| {
        let metadata = json!({"namespace": "ns", "name": "g", "finalizers": finalizers});
        let mut group = json!({"metadata": metadata, "spec": {"more": 1}});
        if deleting {
            group["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        group
    };
    let both = ["a", FINALIZER];
    #[rustfmt::skip]
    let table = [
        // case             in the cache           on the server               active  plan
        ("deleted",         group(true, &both),    Some(group(true, &both)),   false,  release),
        ("a pod is active", group(true, &both),    Some(group(true, &both)),   true,   "waiting for Pod/ns/p to finish"),
        ("not deleted",     group(false, &both),   Some(group(false, &both)),  false,  ""),
        ("not, with a pod", group(false, &both),   Some(group(false, &both)),  true,   ""),
        ("released before", group(true, &["a"]),   Some(group(true, &["a"])),  false,  ""),
        ("released since",  group(true, &both),    Some(group(true, &["a"])),  false,  ""),
        ("recreated since", group(true, &both),    Some(group(false, &both)),  false,  ""),
        ("gone since",      group(true, &both),    None,                       false,  ""),
    ];
    for (case, cached, whole, is_active, want) in table {
        let cached: PartialObject = serde_json::from_value(cached).unwrap();
        let active: Vec<_> = is_active.then(|| pod("1", "g", "Running")).into_iter().collect();
        let plan = plan(View { group: &cached, active: &active, whole });
        assert_eq!(plan.to_string(), want, "{case}");
        for write in plan.writes() {
            assert_eq!(write.body(), Some(group(true, &["a"])), "{case}: nothing else changes");
        }
    }
}
