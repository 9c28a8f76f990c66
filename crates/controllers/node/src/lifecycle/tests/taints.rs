use flyball_cache::{Change, Origin};
use serde_json::json;
use std::sync::Arc;

use super::super::status::{not_ready, unknown_conditions};
use super::super::taints::{TaintChange, clear_no_execute, no_execute, no_schedule};
use super::super::{labels, triggers};
use super::{node, now};

/// The taints of a node after a change, without the common part of their names; `=` if nothing changes.
fn after(text: &str, change: impl Fn(&flyball_api::Node) -> TaintChange) -> String {
    let node = node(text);
    match change(&node).apply(&node, now()) {
        None => "=".to_owned(),
        Some(taints) => {
            let show = |taint: &flyball_api::taint::Taint| {
                let new = if taint.time_added.is_some() { "+" } else { "" };
                format!("{new}{}:{}", taint.key.trim_start_matches("node.kubernetes.io/"), taint.effect)
            };
            taints.iter().map(show).collect::<Vec<_>>().join(" ")
        }
    }
}

#[test]
fn conditions_become_no_schedule_taints() {
    #[rustfmt::skip]
    let table = [
        // node                                                    taints afterwards
        ("Ready=True",                                             "="),
        ("Ready=False",                                            "+not-ready:NoSchedule"),
        ("Ready=Unknown",                                          "+unreachable:NoSchedule"),
        ("Ready=Unknown not-ready:NoSchedule",                     "+unreachable:NoSchedule"),
        ("Ready=True not-ready:NoSchedule",                        ""),
        ("not-ready:NoSchedule",                                   ""),
        ("Ready=True MemoryPressure=True PIDPressure=True",        "+memory-pressure:NoSchedule +pid-pressure:NoSchedule"),
        ("DiskPressure=True NetworkUnavailable=True",              "+disk-pressure:NoSchedule +network-unavailable:NoSchedule"),
        ("MemoryPressure=Unknown DiskPressure=False",              "="),
        ("Ready=True cordoned",                                    "+unschedulable:NoSchedule"),
        ("Ready=True unschedulable:NoSchedule",                    ""),
        ("Ready=True cordoned unschedulable:NoSchedule",           "="),
        ("Ready=False not-ready:NoSchedule",                       "="),
        ("Ready=True not-ready:NoExecute",                         "="),
        ("Ready=False not-ready:NoExecute own:NoSchedule",         "not-ready:NoExecute own:NoSchedule +not-ready:NoSchedule"),
        ("Ready=True own:NoSchedule disk-pressure:NoSchedule",     "own:NoSchedule"),
    ];
    for (text, want) in table {
        assert_eq!(after(text, no_schedule), want, "{text}");
    }
}

#[test]
fn a_node_that_is_not_ready_has_one_no_execute_taint() {
    #[rustfmt::skip]
    let table = [
        // node                                                    taints afterwards
        ("Ready=True unreachable:NoExecute",                       "="),
        ("",                                                       "="),
        ("Ready=False",                                            "+not-ready:NoExecute"),
        ("Ready=Unknown",                                          "+unreachable:NoExecute"),
        ("Ready=Unknown unreachable:NoExecute",                    "="),
        ("Ready=Unknown not-ready:NoExecute",                      "+unreachable:NoExecute"),
        ("Ready=False unreachable:NoExecute unreachable:NoSchedule", "unreachable:NoSchedule +not-ready:NoExecute"),
        ("Ready=False unreachable:NoExecute not-ready:NoExecute",  "not-ready:NoExecute"),
    ];
    for (text, want) in table {
        assert_eq!(after(text, no_execute), want, "{text}");
    }
    let tainted = "Ready=True unreachable:NoExecute not-ready:NoExecute own:NoExecute not-ready:NoSchedule";
    assert_eq!(after(tainted, clear_no_execute), "own:NoExecute not-ready:NoSchedule");
}

#[test]
fn a_patch_of_taints_names_the_version_that_was_read() {
    let mut read = node("Ready=True not-ready:NoSchedule");
    read.metadata.resource_version = flyball_api::ResourceVersion(7);
    let patch = no_schedule(&read).patch(&read, now()).unwrap();
    assert_eq!(patch, json!({"metadata": {"resourceVersion": "7"}, "spec": {"taints": null}}));
    let patch = no_schedule(&node("Ready=False")).patch(&node("Ready=False"), now()).unwrap();
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule", "timeAdded": "2026-01-02T03:04:05Z"});
    assert_eq!(patch["spec"]["taints"], json!([taint]));
}

#[test]
fn deprecated_labels_follow_their_replacements() {
    #[rustfmt::skip]
    let table = [
        // labels                                                     patch
        ("",                                                          None),
        ("beta.kubernetes.io/os:=linux",                              None),
        ("kubernetes.io/os:=linux",                                   Some(json!({"beta.kubernetes.io/os": "linux"}))),
        ("kubernetes.io/os:=linux beta.kubernetes.io/os:=linux",      None),
        ("kubernetes.io/os:=linux beta.kubernetes.io/os:=windows",    Some(json!({"beta.kubernetes.io/os": "linux"}))),
        ("kubernetes.io/os:=linux kubernetes.io/arch:=arm64",
            Some(json!({"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "arm64"}))),
    ];
    for (text, want) in table {
        let patch = labels::patch(&node(text).metadata.labels);
        assert_eq!(patch.map(|patch| patch["metadata"]["labels"].clone()), want, "{text}");
    }
}

#[test]
fn a_heartbeat_that_changes_no_taint_or_label_triggers_no_sync() {
    for (text, want) in [
        ("Ready=True", false),
        ("Ready=False", true),
        ("Ready=False not-ready:NoSchedule", false),
        ("Ready=True kubernetes.io/os:=linux", true),
    ] {
        let node = Arc::new(node(text));
        let change = Change { old: Some(&node), new: Some(&node), origin: Origin::Watch };
        assert_eq!(triggers::node_changed(&change), want, "{text}");
    }
}

#[test]
fn conditions_of_the_kubelet_become_unknown() {
    let show = |text: &str| {
        let conditions = unknown_conditions(&node(text), now())?;
        let show = |c: &flyball_api::condition::Condition| {
            let moved = if c.last_transition_time.is_some() { "!" } else { "" };
            format!("{}={}{moved}/{}", c.type_, c.status, c.reason)
        };
        Some(conditions.iter().map(show).collect::<Vec<_>>().join(" "))
    };
    #[rustfmt::skip]
    let table = [
        ("Ready=Unknown", None),
        ("Ready=Unknown MemoryPressure=True", None), // Upstream: only a change of Ready is written.
        ("", Some("Ready=Unknown!/NodeStatusNeverUpdated MemoryPressure=Unknown!/NodeStatusNeverUpdated \
            DiskPressure=Unknown!/NodeStatusNeverUpdated PIDPressure=Unknown!/NodeStatusNeverUpdated")),
        ("MemoryPressure=False DiskPressure=Unknown Ready=True NetworkUnavailable=False",
            Some("MemoryPressure=Unknown!/NodeStatusUnknown DiskPressure=Unknown/ Ready=Unknown!/NodeStatusUnknown \
            NetworkUnavailable=False/ PIDPressure=Unknown!/NodeStatusNeverUpdated")),
    ];
    for (text, want) in table {
        assert_eq!(show(text).as_deref(), want, "{text}");
    }
}

#[test]
fn only_the_ready_condition_of_a_pod_is_changed() {
    let pod = |status: &str| {
        json!({
            "metadata": {"name": "p", "managedFields": [{}]},
            "status": {"x": 1, "conditions": [
                {"type": "Initialized", "status": "True"},
                {"type": "Ready", "status": status, "reason": "r", "lastTransitionTime": "2025-01-01T00:00:00Z"},
            ]},
        })
    };
    let want = json!({
        "metadata": {"name": "p"},
        "status": {"x": 1, "conditions": [
            {"type": "Initialized", "status": "True"},
            {"type": "Ready", "status": "False", "reason": "r", "lastTransitionTime": "2026-01-02T03:04:05Z"},
        ]},
    });
    assert_eq!(not_ready(&pod("True"), now()), Some(want));
    assert_eq!(not_ready(&pod("False"), now()), None);
    assert_eq!(not_ready(&json!({"status": {}}), now()), None);
}
