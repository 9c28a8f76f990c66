//! Tables for Nodes and their machines.

use std::sync::Arc;

use flyball_api::Node;
use proptest::prelude::*;
use serde_json::json;

use super::invariants;
use super::plan::{Machine, Observed, SHUTDOWN, needs_lookup, plan, taint_patch};

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
fn the_cloud_is_asked_only_about_nodes_that_are_not_ready() {
    for (ready, want) in [("True", false), ("False", true), ("Unknown", true), ("", true)] {
        assert_eq!(needs_lookup(&node(ready, "shutdown", false)), want, "{ready}");
    }
}

#[test]
fn a_node_is_tainted_or_deleted_as_its_machine_is() {
    const DELETE: &str = "
  in sequence
    event Normal DeletingNode: Deleting node n because it does not exist in the cloud provider (Node n)
    delete Node n: its machine does not exist any more
      else event Warning DeletingNodeFailed: Failed deleting node n: <error> (Node n)";
    const TAINT: &str = "\n  patch Node n: its machine is shut down";
    const UNTAINT: &str = "\n  patch Node n: it is ready again";
    use Machine::*;
    #[rustfmt::skip]
    let table = [
        // ready      machine          taints            deleting  plan
        ("True",      None,            "",               false,    ""),
        ("True",      None,            "other noexec",   false,    ""),
        ("True",      None,            "shutdown",       false,    UNTAINT),
        ("False",     None,            "",               false,    ""),
        ("False",     None,            "shutdown",       false,    ""),
        ("Unknown",   Some(Gone),      "",               false,    DELETE),
        ("",          Some(Gone),      "",               false,    DELETE),
        ("False",     Some(Gone),      "shutdown",       false,    DELETE),
        ("False",     Some(Gone),      "",               true,     ""),
        ("False",     Some(ShutDown),  "",               false,    TAINT),
        ("False",     Some(ShutDown),  "noexec",         false,    TAINT),
        ("False",     Some(ShutDown),  "shutdown",       false,    ""),
        ("False",     Some(Exists),    "",               false,    ""),
        ("False",     Some(Exists),    "shutdown",       false,    ""),
    ];
    for (ready, machine, taints, deleting, want) in table {
        let nodes = [Observed { node: Arc::new(node(ready, taints, deleting)), machine }];
        let plan = plan(&nodes);
        assert_eq!(
            plan.to_string(),
            format!("concurrently{want}"),
            "{ready} {machine:?} {taints} {deleting}"
        );
        assert_eq!(invariants::check(&nodes, &plan), Ok(()));
    }
}

#[test]
fn the_taint_is_added_and_removed_among_others() {
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
        assert_eq!(taint_patch(&node("False", taints, false), wanted), want, "{taints} {wanted}");
    }
}

proptest! {
    #[test]
    fn no_ready_node_is_deleted_and_no_node_outlives_its_machine(
        ready in "(True|False|Unknown)?",
        taints in "((shutdown|a|noexec) ){0,3}",
        deleting in any::<bool>(),
        machine in prop::sample::select(vec![None, Some(Machine::Gone), Some(Machine::ShutDown), Some(Machine::Exists)]),
    ) {
        let nodes = [Observed { node: Arc::new(node(&ready, &taints, deleting)), machine }];
        prop_assert_eq!(invariants::check(&nodes, &plan(&nodes)), Ok(()));
    }
}
