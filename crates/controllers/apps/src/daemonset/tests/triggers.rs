use std::sync::Arc;

use flyball_api::ControllerRevision;
use flyball_api::pod::Pod;
use flyball_cache::{Change, Origin, Store};
use serde_json::{Value, json};

use super::world::{node, pod, pods, set};
use crate::daemonset::triggers::{is_relevant, node_changed, pod_changed, revision_changed};

#[test]
fn a_node_syncs_the_sets_that_its_change_affects() {
    #[rustfmt::skip]
    let table = [
        // case                                       set             node            pods           synced
        ("it lacks a pod",                            "",             "n1",           "",            true),
        ("it has one",                                "",             "n1",           "a@n1",        false),
        ("it has one elsewhere",                      "",             "n1",           "a@n2",        true),
        ("it should have none and has none",          "",             "n1:keep-off",  "",            false),
        ("it may stay",                               "",             "n1:keep-off",  "a@n1",        false),
        ("it may not",                                "",             "n1:drive-off", "a@n1",        true),
        ("it may have become right",                  "misscheduled", "n1",           "a@n1",        true),
        ("another's pod is not ours",                 "zone=x",       "n1",           "",            false),
    ];
    for (case, set_words, node_words, pod_words, want) in table {
        let sets = Store::from_iter([set(set_words)]);
        let on_node = |pod: &Arc<Pod>| pod.spec.node_name == "n1";
        let there: Vec<_> = pods(pod_words).into_iter().filter(on_node).collect();
        assert_eq!(!node_changed(&node(node_words), &there, &sets, false).is_empty(), want, "{case}");
    }
}

#[test]
fn only_labels_and_taints_of_a_node_matter() {
    let relevant = |old: Option<&str>, new: Option<&str>| {
        let (old, new) = (old.map(node), new.map(node));
        is_relevant(&Change { old: old.as_ref(), new: new.as_ref(), origin: Origin::Watch })
    };
    assert!(
        relevant(None, Some("n"))
            && relevant(Some("n"), Some("n:keep-off"))
            && relevant(Some("n"), Some("n:label=x"))
    );
    assert!(!relevant(Some("n"), Some("n")) && !relevant(Some("n"), None));
}

#[test]
fn a_pod_syncs_its_set() {
    let (before, sets) = (pod("a@n1"), Store::from_iter([set("")]));
    let change = Change { old: Some(&before), new: None, origin: Origin::Watch };
    assert_eq!(pod_changed(&change, &sets).len(), 1);
}

#[test]
fn a_revision_syncs_its_set_unless_it_was_just_created_for_it() {
    let set = set("");
    let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": set.metadata.name,
                       "uid": set.metadata.uid, "controller": true});
    let revision = |metadata: Value| -> Arc<ControllerRevision> {
        let mut metadata = metadata;
        metadata["name"] = "r".into();
        metadata["namespace"] = json!(set.metadata.namespace);
        metadata["labels"] = json!(set.metadata.labels);
        Arc::new(serde_json::from_value(json!({"metadata": metadata, "revision": 1})).unwrap())
    };
    let owned = revision(json!({"ownerReferences": [owner]}));
    let deleting = revision(json!({"ownerReferences": [owner], "deletionTimestamp": "2026-01-01T00:00:00Z"}));
    #[rustfmt::skip]
    let table = [
        ("created for it",  None,         Some(&owned),    false),
        ("already deleted", None,         Some(&deleting), true),
        ("changed",         Some(&owned), Some(&owned),    true),
        ("gone",            Some(&owned), None,            true),
    ];
    let sets = Store::from_iter([set.clone()]);
    for (case, old, new, want) in table {
        let change = Change { old, new, origin: Origin::Watch };
        assert_eq!(!revision_changed(&change, &sets).is_empty(), want, "{case}");
    }
}
