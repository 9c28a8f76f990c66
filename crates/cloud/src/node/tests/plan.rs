use std::sync::Arc;

use flyball_api::Node;
use flyball_cache::{Change, Origin};
use flyball_client::{ApiStatus, Error};
use flyball_runtime::plan::Answer;
use flyball_runtime::{Plan, SyncError};
use proptest::prelude::*;
use serde_json::json;

use super::node;
use crate::Metadata;
use crate::node::plan::{
    ATTEMPTS, UNINITIALIZED, after_attempt, after_initialisation, check, initialise, initialised,
    is_uninitialized, plan,
};
use crate::node::{invariants, triggers};

const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";

#[test]
fn new_nodes_are_initialised_and_drifted_labels_corrected() {
    const RELABEL: &str = "patch Node n: its GA labels must equal the beta labels";
    const DRIFTED: &str = "failure-domain.beta.kubernetes.io/zone=a";
    #[rustfmt::skip]
    let table = [
        // case                 labels    taints           initialised  synced  labels
        ("complete",            "",       "other",         true,        false,  ""),
        ("new",                 "",       UNINITIALIZED,   false,       true,   ""),
        ("new, and drifted",    DRIFTED,  UNINITIALIZED,   false,       true,   RELABEL),
        ("drifted",             DRIFTED,  "",              true,        true,   RELABEL),
    ];
    for (case, labels, taints, initialised, synced, want) in table {
        let node = Arc::new(node(labels, taints, json!({})));
        assert_eq!(!is_uninitialized(&node), initialised, "{case}");
        let live = serde_json::to_value(&*node).unwrap();
        assert_eq!(initialise(live, &node, &Metadata::default()).is_none(), initialised, "{case}");
        assert_eq!(plan(&node).to_string(), want, "{case}");
        if let [write] = plan(&node).writes()[..] {
            let labels = json!({"topology.kubernetes.io/zone": "a"});
            assert_eq!(write.body(), Some(json!({"metadata": {"uid": "u", "labels": labels}})), "{case}");
        }
        let change = Change { old: Some(&node), new: Some(&node), origin: Origin::Watch };
        assert_eq!(triggers::node_changed(&change).is_some(), synced, "{case}");
        let gone = Change { old: Some(&node), new: None, origin: Origin::Watch };
        assert_eq!(triggers::node_changed(&gone), Some(node.metadata.key()), "{case}");
    }
}

#[test]
fn an_initialised_node_gets_its_addresses_and_an_event() {
    let address = json!([{"type": "InternalIP", "address": "10.0.0.1"}]);
    let metadata =
        Metadata { addresses: serde_json::from_value(address.clone()).unwrap(), ..Metadata::default() };
    #[rustfmt::skip]
    let table = [
        ("no addresses yet", json!([]), "each\n  patch Node/status n: its machine has other addresses\n  event Normal Synced: Node synced successfully"),
        ("the same",         address,   "each\n  event Normal Synced: Node synced successfully"),
    ];
    for (case, has, want) in table {
        let node = node("", "", json!({"status": {"addresses": has}}));
        assert_eq!(Plan::of(after_initialisation(&node, &metadata)).to_string(), want, "{case}");
    }
    let wish = json!({"metadata": {"annotations": {"alpha.kubernetes.io/provided-node-ip": "10.0.0.2"}}});
    let plan = Plan::of(after_initialisation(&node("", "", wish), &metadata)).to_string();
    let problem =
        "addresses of node n: failed to get node address from cloud provider that matches ip: 10.0.0.2";
    assert_eq!(plan, format!("each\n  invalid: {problem}\n  event Normal Synced: Node synced successfully"));
}

#[test]
fn a_node_that_keeps_changing_is_initialised_a_limited_number_of_times() {
    let error = |code: u16, reason: &str| {
        let status = ApiStatus { code, reason: reason.into(), ..ApiStatus::default() };
        SyncError::api("updating Node n")(Error::Status(Box::new(status)))
    };
    let conflict = || Err(error(409, "Conflict"));
    #[rustfmt::skip]
    let table = [
        // case                  attempt   answer                                  what follows
        ("written",              1,        Ok(Answer::Written(None)),              "Ok(Initialised(None))"),
        ("a conflict",           1,        conflict(),                             "Ok(Again)"),
        ("the last but one",     19,       conflict(),                             "Ok(Again)"),
        ("the last one",         ATTEMPTS, conflict(),                             "error"),
        ("another error",        1,        Err(error(403, "Forbidden")),           "error"),
    ];
    for (case, attempt, answer, want) in table {
        let next = after_attempt(attempt, answer);
        let shown = if next.is_err() { "error".to_owned() } else { format!("{next:?}") };
        assert_eq!(shown, want, "{case}");
    }
}

#[test]
fn a_node_needs_a_provider_id_and_the_address_that_its_kubelet_prefers() {
    #[rustfmt::skip]
    let table = [
        // case                      the node's ID  the cloud's ID  wish        problem
        ("the cloud knows",          "",            "acme://1",     "10.0.0.1", ""),
        ("the kubelet knew",         "acme://1",    "",             "10.0.0.1", ""),
        ("neither knows",            "",            "",             "10.0.0.1", "cloud provider does not set node provider ID for node n"),
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
fn unknown_fields_are_kept() {
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
    fn initialising_keeps_foreign_taints_and_labels(
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
        let write = initialise(live, &before, &metadata).unwrap();
        prop_assert_eq!(invariants::check(&before, &write, &metadata), Ok(()));
    }
}
