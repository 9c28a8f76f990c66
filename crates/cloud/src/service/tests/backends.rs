use std::sync::Arc;

use flyball_cache::{Change, Origin};
use serde_json::json;

use super::node;
use crate::service::backends::{EXCLUDE, LEAVING, eligible, listed};
use crate::service::triggers::node_changed;

#[test]
fn nodes_count_unless_they_are_going_or_kept_out() {
    let label = |value: &str| json!({"metadata": {"labels": {EXCLUDE: value}}});
    #[rustfmt::skip]
    let table = [
        ("a plain one",           json!({}),                                                            true),
        ("not ready",             json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}), true),
        ("cordoned",              json!({"spec": {"unschedulable": true}}),                             true),
        ("excluded",              label("true"),                                                        false),
        ("excluded with nothing", label(""),                                                            false),
        ("excluded with a word",  label("please"),                                                      false),
        ("excluded, not",         label("false"),                                                       true),
        ("excluded, zero",        label("0"),                                                           true),
        ("being deleted",         json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),   false),
        ("leaving",               json!({"spec": {"taints": [{"key": LEAVING, "effect": "NoSchedule"}]}}), false),
        ("tainted otherwise",     json!({"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}}),   true),
    ];
    for (case, more, want) in table {
        assert_eq!(eligible([Arc::new(node("n", more))]).len() == 1, want, "{case}");
    }
}

#[test]
fn load_balancers_are_updated_when_nodes_are_created_deleted_excluded_or_replaced() {
    let plain = || Some(Arc::new(node("n", json!({}))));
    let with = |more| Some(Arc::new(node("n", more)));
    #[rustfmt::skip]
    let table = [
        ("it comes",            None,      plain(),                                                         true),
        ("it goes",             plain(),   None,                                                            true),
        ("it stays",            plain(),   plain(),                                                         false),
        ("it is excluded",      plain(),   with(json!({"metadata": {"labels": {EXCLUDE: ""}}})),            true),
        ("it says it is not",   plain(),   with(json!({"metadata": {"labels": {EXCLUDE: "false"}}})),       false),
        ("another machine",     plain(),   with(json!({"spec": {"providerID": "acme://other"}})),           true),
        ("it is leaving",       plain(),   with(json!({"spec": {"taints": [{"key": LEAVING}]}})),           false),
        ("it is not ready",     plain(),   with(json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}})), false),
    ];
    for (case, old, new, want) in table {
        let change = Change { old: old.as_ref(), new: new.as_ref(), origin: Origin::Watch };
        assert_eq!(node_changed(&change).is_some(), want, "{case}");
    }
}

#[test]
fn events_list_twenty_nodes_at_most() {
    let nodes = |count: usize| -> Vec<_> {
        (0..count).map(|n| Arc::new(node(&format!("n{n:02}"), json!({})))).collect()
    };
    assert_eq!(listed(&nodes(0)), "[]");
    assert_eq!(listed(&nodes(2)), "[n00 n01]");
    let many = listed(&nodes(23));
    assert!(many.starts_with("[n00 n01 ") && many.ends_with(" n19 <3 more>]"), "{many}");
}
