//! Tables for what becomes of a Node.

use flyball_api::Node;
use proptest::prelude::*;
use serde_json::json;

use super::invariants;
use super::plan::{Action, Look, Machine, SHUTDOWN, look, plan, tainting};

fn node(ready: &str, taints: &str, deleting: bool) -> Node {
    let conditions = if ready.is_empty() { json!([]) } else { json!([{"type": "Ready", "status": ready}]) };
    let effect = |key: &str| if key == "noexec" { "NoExecute" } else { "NoSchedule" };
    let key = |word: &str| {
        if matches!(word, "shutdown" | "noexec") { SHUTDOWN.to_owned() } else { word.to_owned() }
    };
    let taints: Vec<_> =
        taints.split_whitespace().map(|word| json!({"key": key(word), "effect": effect(word)})).collect();
    let deletion = deleting.then_some("2026-01-01T00:00:00Z");
    serde_json::from_value(json!({
        "metadata": {"name": "n", "resourceVersion": "7", "deletionTimestamp": deletion},
        "spec": {"taints": taints},
        "status": {"conditions": conditions},
    }))
    .expect("a node")
}

#[test]
fn only_a_node_that_is_not_ready_is_looked_up() {
    #[rustfmt::skip]
    let table = [
        // ready      taints             look
        ("True",      "",                Look::Well),
        ("True",      "other noexec",    Look::Well),
        ("True",      "shutdown",        Look::Recovered),
        ("False",     "",                Look::Silent),
        ("False",     "shutdown",        Look::Silent),
        ("Unknown",   "",                Look::Silent),
        ("",          "",                Look::Silent),
    ];
    for (ready, taints, want) in table {
        assert_eq!(look(&node(ready, taints, false)), want, "{ready} {taints}");
    }
}

#[test]
fn a_node_shares_the_fate_of_its_machine() {
    #[rustfmt::skip]
    let table = [
        // machine            taints      deleting  action
        (Machine::Gone,       "",         false,    Action::Delete),
        (Machine::Gone,       "shutdown", false,    Action::Delete),
        (Machine::Gone,       "",         true,     Action::Leave),
        (Machine::ShutDown,   "",         false,    Action::Taint),
        (Machine::ShutDown,   "noexec",   false,    Action::Taint),
        (Machine::ShutDown,   "shutdown", false,    Action::Leave),
        (Machine::There,      "",         false,    Action::Leave),
        (Machine::There,      "shutdown", false,    Action::Leave),
    ];
    for (machine, taints, deleting, want) in table {
        assert_eq!(plan(&node("False", taints, deleting), machine), want, "{machine:?} {taints} {deleting}");
    }
}

#[test]
fn the_taint_comes_and_goes_among_others() {
    let version = json!({"resourceVersion": "7"});
    let own = json!({"key": SHUTDOWN, "effect": "NoSchedule"});
    let other = json!({"key": "a", "effect": "NoSchedule"});
    #[rustfmt::skip]
    let table = [
        // taints        wanted  taints afterwards
        ("a",            true,   Some(json!([other, own]))),
        ("",             true,   Some(json!([own]))),
        ("shutdown",     true,   None),
        ("shutdown a",   false,  Some(json!([other]))),
        ("shutdown",     false,  Some(json!(null))),
        ("a",            false,  None),
    ];
    for (taints, wanted, want) in table {
        let want = want.map(|taints| json!({"metadata": version, "spec": {"taints": taints}}));
        assert_eq!(tainting(&node("False", taints, false), wanted), want, "{taints} {wanted}");
    }
}

proptest! {
    #[test]
    fn no_ready_node_is_touched_and_no_machine_outlives_its_node(
        ready in "(True|False|Unknown)?",
        taints in "((shutdown|a|noexec) ){0,3}",
        deleting in any::<bool>(),
        machine in prop::sample::select(vec![Machine::Gone, Machine::ShutDown, Machine::There]),
    ) {
        invariants::check(&node(&ready, &taints, deleting), machine);
    }
}
