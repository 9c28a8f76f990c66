use std::sync::Arc;

use flyball_api::{Node, PodDisruptionBudget};
use flyball_cache::{Change, Origin};
use serde_json::json;

use super::super::triggers::{budget_changed, has_become_unready, node_changed, pod_changed};
use super::{pod, taints};

#[test]
fn a_change_of_no_execute_taints_triggers_the_node() {
    let node = |text: &str| {
        let mut node = Node::default();
        node.spec.taints = taints(text).into();
        Arc::new(node)
    };
    #[rustfmt::skip]
    let table = [
        // case                          before                 after                  triggered
        ("new and clean",                None,                  Some(""),              false),
        ("new and tainted",              None,                  Some("a"),             true),
        ("tainted",                      Some(""),              Some("a"),             true),
        ("untainted",                    Some("a"),             Some(""),              true),
        ("another effect",               Some("a"),             Some("a b:NoSchedule"), false),
        ("another value",                Some("a"),             Some("a=x"),           true),
        ("a heartbeat",                  Some("a"),             Some("a"),             false),
        ("gone",                         Some("a"),             None,                  false),
    ];
    for (case, before, after, want) in table {
        let (old, new) = (before.map(node), after.map(node));
        let change = Change { old: old.as_ref(), new: new.as_ref(), origin: Origin::Watch };
        assert_eq!(node_changed(&change), want, "{case}");
    }
}

#[test]
fn a_pod_is_triggered_when_it_is_bound_to_a_tainted_node_or_tolerates_other_taints() {
    let plain = json!({});
    let unbound = json!({"spec": {"nodeName": ""}});
    let tolerant = json!({"spec": {"tolerations": [{"operator": "Exists"}]}});
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    #[rustfmt::skip]
    let table = [
        // case                               before            after             tainted  scheduled  triggered
        ("bound to a node without taints",    None,             Some(&plain),     false,   false,  false),
        ("bound to a tainted node",           None,             Some(&plain),     true,    false,  true),
        ("not bound",                         None,             Some(&unbound),   true,    false,  false),
        ("bound by an update",                Some(&unbound),   Some(&plain),     true,    false,  true),
        ("tolerates more",                    Some(&plain),     Some(&tolerant),  true,    false,  true),
        ("tolerates more, eviction scheduled", Some(&plain),     Some(&tolerant),  false,   true,   true),
        ("another change",                    Some(&plain),     Some(&ready),     true,    true,   false),
        ("deleted",                           Some(&plain),     None,             true,    false,  false),
        ("deleted before its eviction",       Some(&plain),     None,             true,    true,   true),
    ];
    for (case, before, after, tainted, is_scheduled, want) in table {
        let (old, new) =
            (before.map(|more| Arc::new(pod(more.clone()))), after.map(|more| Arc::new(pod(more.clone()))));
        let change = Change { old: old.as_ref(), new: new.as_ref(), origin: Origin::Watch };
        assert_eq!(pod_changed(&change, |_| tainted, |_| is_scheduled), want, "{case}");
    }
}

#[test]
fn what_a_budget_refused_is_tried_again_when_it_may_allow_it() {
    let budget = |allowed: i32| {
        let mut budget = PodDisruptionBudget::default();
        budget.status.disruptions_allowed = allowed;
        Arc::new(budget)
    };
    #[rustfmt::skip]
    let table = [
        // case                    before     after      triggered
        ("it allows one now",      Some(0),   Some(1),   true),
        ("it allows none",         Some(1),   Some(0),   false),
        ("it allows as many",      Some(1),   Some(1),   false),
        ("it is new",              None,      Some(1),   true),
        ("new, and allows none",   None,      Some(0),   false),
        ("it is gone",             Some(0),   None,      true),
    ];
    for (case, before, after, want) in table {
        let (old, new) = (before.map(budget), after.map(budget));
        let change = Change { old: old.as_ref(), new: new.as_ref(), origin: Origin::Watch };
        assert_eq!(budget_changed(&change), want, "{case}");
    }
}

#[test]
fn a_pod_that_no_longer_serves_is_tried_again() {
    let serves = |status: &str| {
        Arc::new(pod(json!({"status": {"conditions": [{"type": "Ready", "status": status}]}})))
    };
    for (before, after, want) in [
        ("True", "False", true),
        ("True", "True", false),
        ("False", "True", false),
        ("False", "False", false),
    ] {
        let (old, new) = (serves(before), serves(after));
        let change = Change { old: Some(&old), new: Some(&new), origin: Origin::Watch };
        assert_eq!(has_become_unready(&change), want, "{before} {after}");
    }
}
