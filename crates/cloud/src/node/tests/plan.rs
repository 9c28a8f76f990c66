use std::sync::Arc;

use flyball_api::Node;
use flyball_cache::{Change, Origin};
use proptest::prelude::*;
use serde_json::json;

use super::node;
use crate::Metadata;
use crate::node::plan::{UNINITIALIZED, Work, check, initialised, plan};
use crate::node::{invariants, triggers};

const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";

#[test]
fn a_node_is_initialised_first_and_relabelled_later() {
    #[rustfmt::skip]
    let table = [
        // case                         labels                        taints                            work
        ("complete",                    "",                           "other",                          "nothing"),
        ("new",                         "",                           UNINITIALIZED,                    "initialise"),
        ("new, and drifted",            "failure-domain.beta.kubernetes.io/zone=a", UNINITIALIZED,      "initialise"),
        ("drifted",                     "failure-domain.beta.kubernetes.io/zone=a", "",                 "relabel"),
    ];
    for (case, labels, taints, want) in table {
        let node = Arc::new(node(labels, taints, json!({})));
        let work = match plan(&node) {
            Work::Nothing => "nothing",
            Work::Initialise => "initialise",
            Work::Relabel(_) => "relabel",
        };
        assert_eq!(work, want, "{case}");
        let change = Change { old: Some(&node), new: Some(&node), origin: Origin::Watch };
        assert_eq!(triggers::node_changed(&change).is_some(), want != "nothing", "{case}");
        let gone = Change { old: Some(&node), new: None, origin: Origin::Watch };
        assert_eq!(triggers::node_changed(&gone), None, "{case}");
    }
}

#[test]
fn a_node_needs_a_provider_id_and_the_address_it_was_promised() {
    #[rustfmt::skip]
    let table = [
        // case                      the node's ID  the cloud's ID  wish        problem
        ("the cloud knows",          "",            "acme://1",     "10.0.0.1", ""),
        ("the kubelet knew",         "acme://1",    "",             "10.0.0.1", ""),
        ("nobody knows",             "",            "",             "10.0.0.1", "cloud provider does not set node provider ID for node n"),
        ("another address",          "",            "acme://1",     "10.0.0.2", "provided node ip for node \"n\" is not valid"),
    ];
    for (case, has, given, wish, want) in table {
        let node = node(
            "",
            UNINITIALIZED,
            json!({
                "metadata": {"annotations": {"alpha.kubernetes.io/provided-node-ip": wish}},
                "spec": {"providerID": has},
            }),
        );
        let addresses =
            serde_json::from_value(json!([{"type": "InternalIP", "address": "10.0.0.1"}])).unwrap();
        let metadata = Metadata { provider_id: given.into(), addresses, ..Metadata::default() };
        let problem = check(&node, &metadata).err().map(|unfit| unfit.to_string()).unwrap_or_default();
        assert_eq!(problem, want, "{case}");
    }
}

#[test]
fn fields_that_we_do_not_know_survive() {
    let live = json!({
        "metadata": {"name": "n", "managedFields": []},
        "spec": {"taints": [{"key": UNINITIALIZED, "effect": "NoSchedule", "new": 1}, {"key": "x", "new": 2}], "future": true},
        "status": {"nodeInfo": {"kernelVersion": "6"}},
    });
    let node: Node = serde_json::from_value(live.clone()).unwrap();
    let metadata = Metadata { provider_id: "acme://1".into(), zone: "a".into(), ..Metadata::default() };
    assert_eq!(
        initialised(live, &node, &metadata),
        json!({
            "metadata": {"name": "n", "managedFields": [], "labels": {BETA_ZONE: "a", "topology.kubernetes.io/zone": "a"}},
            "spec": {"taints": [{"key": "x", "new": 2}], "future": true, "providerID": "acme://1"},
            "status": {"nodeInfo": {"kernelVersion": "6"}},
        })
    );
}

proptest! {
    #[test]
    fn initialising_keeps_what_is_not_ours(
        labels in prop::collection::btree_map("[ab]|topology.kubernetes.io/zone|failure-domain.beta.kubernetes.io/zone", "[xyz]", 0..4),
        taints in prop::collection::vec("[abc]", 0..4),
        has_id in any::<bool>(),
        (zone, region, instance_type) in ("[z]?", "[r]?", "[t]?"),
        extra in prop::collection::btree_map("[abc]|node.kubernetes.io/x", "[xyz]", 0..4),
    ) {
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let taints = format!("{UNINITIALIZED} {}", taints.join(" "));
        let id = if has_id { "acme://old" } else { "" };
        let before = node(&labels.join(" "), &taints, json!({"spec": {"providerID": id}}));
        let metadata = Metadata {
            provider_id: "acme://1".into(),
            zone: zone.into(),
            region: region.into(),
            instance_type: instance_type.into(),
            labels: extra.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
            ..Metadata::default()
        };
        let live = serde_json::to_value(&before).unwrap();
        let after = initialised(live, &before, &metadata);
        invariants::check(&before, &serde_json::from_value(after).unwrap(), &metadata);
    }
}
