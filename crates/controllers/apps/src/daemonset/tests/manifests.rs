use serde_json::json;

use super::world::{pod, set};
use crate::daemonset::manifests;

#[test]
fn a_pod_has_affinity_for_its_node_and_is_assigned_by_the_scheduler() {
    let made = manifests::pod(&set("bears=mine"), "hash", "n1");
    assert_eq!(made["metadata"]["generateName"], "agent-");
    assert_eq!(
        made["metadata"]["labels"],
        json!({"app": "agent", "controller-revision-hash": "hash", "pod-template-generation": "5"})
    );
    assert_eq!(made["spec"]["nodeName"], json!(null));
    assert_eq!(
        made["spec"]["affinity"],
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
            [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}})
    );
    assert_eq!(made["spec"]["tolerations"].as_array().map(Vec::len), Some(7));
}

#[test]
fn other_affinity_of_the_template_is_kept() {
    let mut set = set("");
    let mut spec = set.spec.raw().to_value();
    let anti = json!({"preferredDuringSchedulingIgnoredDuringExecution": []});
    spec["template"]["spec"]["affinity"] = json!({"podAntiAffinity": anti, "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [],
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": []}, {}]}}});
    set.spec = serde_json::from_value(spec).unwrap();
    let made = manifests::pod(&set, "hash", "n1");
    let affinity = &made["spec"]["affinity"];
    assert_eq!(affinity["podAntiAffinity"], anti);
    assert_eq!(affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"], json!([]));
    let required = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(required["nodeSelectorTerms"].as_array().map(Vec::len), Some(1));
}

#[test]
fn an_updated_pod_has_the_hash_or_the_generation() {
    assert!(manifests::is_updated(&pod("a@n"), "new", None));
    assert!(!manifests::is_updated(&pod("a@n:old"), "new", Some(5)));
    assert!(!manifests::is_updated(&pod("a@n"), "", None), "no hash is no match");
    let mut by_generation = (*pod("a@n:old")).clone();
    by_generation.metadata.labels = by_generation.metadata.labels.with(manifests::GENERATION, "5");
    assert!(
        manifests::is_updated(&by_generation, "new", Some(5))
            && !manifests::is_updated(&by_generation, "new", Some(6))
    );
}

#[test]
fn the_target_is_the_node_of_the_spec_or_of_the_affinity() {
    assert_eq!(manifests::target_node(&pod("a@n1")).as_deref(), Some("n1"));
    assert_eq!(manifests::target_node(&pod("a@n2:unscheduled")).as_deref(), Some("n2"));
    let mut nowhere = (*pod("a@n1")).clone();
    nowhere.spec.node_name = Default::default();
    assert_eq!(manifests::target_node(&nowhere), None);
}
