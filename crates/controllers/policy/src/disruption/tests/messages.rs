use serde_json::json;

use super::pod;
use crate::disruption::messages::{not_deleted, overlap, unmanaged};

#[test]
fn messages_are_those_of_upstream() {
    let selector = serde_json::from_value(json!({
        "matchLabels": {"b": "2", "a": "1"},
        "matchExpressions": [
            {"key": "k", "operator": "In", "values": ["x", "y"]}, {"key": "l", "operator": "Exists"},
        ],
    }))
    .unwrap();
    let message = unmanaged(Some(&selector));
    let selector = "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:\
        []LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},\
        LabelSelectorRequirement{Key:l,Operator:Exists,Values:[],},},}";
    assert!(
        message.starts_with(&format!(
            "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be "
        )),
        "{message}"
    );
    assert!(unmanaged(None).contains("(selector: nil)"));
    assert_eq!(not_deleted(&pod("p")), "Pod was expected by PDB ns/ns to be deleted but it wasn't");
    let want = "Pod \"ns\"/\"p\" matches multiple PodDisruptionBudgets.  Chose \"one\" arbitrarily.";
    assert_eq!(overlap(&pod("p"), "one"), want);
}
