//! Who is looked at, and who is let go.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_cache::{Change, Origin};
use serde_json::json;

use super::FINALIZER;
use super::sync::released;
use super::triggers::pod_changed;

fn pod(uid: &str, group: &str, phase: &str) -> Arc<Pod> {
    let spec = if group.is_empty() { json!({}) } else { json!({"schedulingGroup": {"podGroupName": group}}) };
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "p", "uid": uid}, "spec": spec, "status": {"phase": phase},
    }))
    .unwrap()
}

#[test]
fn a_group_is_looked_at_when_a_pod_of_it_ends() {
    let running = || Some(pod("1", "g", "Running"));
    #[rustfmt::skip]
    let table = [
        // case                    old                            new                             groups
        ("comes",                  None,                          running(),                      ""),
        ("runs",                   Some(pod("1", "g", "Pending")), running(),                     ""),
        ("ends",                   running(),                     Some(pod("1", "g", "Succeeded")), "ns/g"),
        ("fails",                  running(),                     Some(pod("1", "g", "Failed")),  "ns/g"),
        ("goes",                   running(),                     None,                           "ns/g"),
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
fn only_our_finalizer_goes_and_only_in_the_end() {
    let group = |deleting: bool, finalizers: &[&str]| {
        let mut group = json!({"metadata": {"finalizers": finalizers}, "spec": {"more": 1}});
        if deleting {
            group["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        group
    };
    assert_eq!(released(group(true, &["a", FINALIZER])), Some(group(true, &["a"])));
    assert_eq!(released(group(false, &["a", FINALIZER])), None);
    assert_eq!(released(group(true, &["a"])), None);
}
