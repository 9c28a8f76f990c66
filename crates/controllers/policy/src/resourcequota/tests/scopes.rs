use flyball_api::resource_quota::ResourceQuotaSpec;
use serde_json::{Value, json};

use super::world::{claim, pod, pod_with};
use crate::resourcequota::scopes::Scopes;

fn scopes(spec: Value) -> Scopes {
    let spec: ResourceQuotaSpec = serde_json::from_value(spec).unwrap();
    Scopes::of(&spec)
}

fn plain(scope: &str) -> Scopes {
    scopes(json!({"scopes": [scope]}))
}

/// `NAME OPERATOR value value`.
fn selected(text: &str) -> Scopes {
    let mut words = text.split_whitespace();
    let (name, operator) = (words.next().unwrap(), words.next().unwrap());
    let values: Vec<&str> = words.collect();
    scopes(
        json!({"scopeSelector": {"matchExpressions": [{"scopeName": name, "operator": operator, "values": values}]}}),
    )
}

#[test]
fn pods_are_in_scopes_by_deadline_and_qos() {
    let sized = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]});
    let nothing =
        json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "0", "example.com/x": "1"}}}]});
    let pod_level = json!({"containers": [{"name": "c"}], "resources": {"limits": {"memory": "1Gi"}}});
    #[rustfmt::skip]
    let table = [
        // case                     pod                                               Terminating  BestEffort
        ("plain",                   pod(nothing.clone()),                             false,       true),
        ("with a deadline",         pod(json!({"activeDeadlineSeconds": 5})),         true,        true),
        ("with a deadline of 0",    pod(json!({"activeDeadlineSeconds": 0})),         true,        true),
        ("sized",                   pod(sized.clone()),                               false,       false),
        ("as a whole",              pod(pod_level),                                   false,       false),
        ("the server says so",      pod_with(sized, json!({"qosClass": "BestEffort"})), false,     true),
        ("the server denies it",    pod_with(nothing, json!({"qosClass": "Burstable"})), false,    false),
    ];
    for (case, pod, terminating, best_effort) in table {
        assert_eq!(plain("Terminating").hold_pod(&pod, true), terminating, "{case}");
        assert_eq!(plain("NotTerminating").hold_pod(&pod, true), !terminating, "{case}");
        assert_eq!(plain("BestEffort").hold_pod(&pod, true), best_effort, "{case}");
        assert_eq!(plain("NotBestEffort").hold_pod(&pod, true), !best_effort, "{case}");
    }
}

#[test]
fn pods_are_in_scopes_by_priority_class() {
    let (high, low, none) =
        (pod(json!({"priorityClassName": "high"})), pod(json!({"priorityClassName": "low"})), pod(json!({})));
    #[rustfmt::skip]
    let table = [
        // selector                       high   low    none
        ("PriorityClass Exists",          true,  true,  false),
        ("PriorityClass DoesNotExist",    false, false, true),
        ("PriorityClass In high other",   true,  false, false),
        ("PriorityClass NotIn high",      false, true,  true),
        ("PriorityClass Like high",       false, false, false),
        ("Unheard-of Exists",             false, false, false),
        ("VolumeAttributesClass Exists",  false, false, false),
    ];
    for (text, in_high, in_low, in_none) in table {
        let scopes = selected(text);
        let got = [&high, &low, &none].map(|pod| scopes.hold_pod(pod, true));
        assert_eq!(got, [in_high, in_low, in_none], "{text}");
    }
    assert!(plain("PriorityClass").hold_pod(&high, true) && !plain("PriorityClass").hold_pod(&none, true));
}

#[test]
fn pods_with_affinity_to_other_namespaces_are_in_scope() {
    let term =
        |term: Value| json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z"}, term]});
    let weighted = |term: Value| json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]});
    #[rustfmt::skip]
    let table = [
        ("none",                       json!(null),                                                        false),
        ("of nodes",                   json!({"nodeAffinity": {}}),                                        false),
        ("within the namespace",       json!({"podAffinity": term(json!({"namespaces": []}))}),            false),
        ("by name",                    json!({"podAffinity": term(json!({"namespaces": ["x"]}))}),         true),
        ("by an empty selector",       json!({"podAffinity": term(json!({"namespaceSelector": {}}))}),     true),
        ("away from, by name",         json!({"podAntiAffinity": term(json!({"namespaces": ["x"]}))}),     true),
        ("preferably",                 json!({"podAffinity": weighted(json!({"namespaces": ["x"]}))}),     true),
        ("preferably away from",       json!({"podAntiAffinity": weighted(json!({"namespaceSelector": {}}))}), true),
        ("no term at all",             json!({"podAntiAffinity": weighted(json!({}))}),                    false),
    ];
    for (case, affinity, want) in table {
        let pod = pod(json!({"affinity": affinity}));
        assert_eq!(plain("CrossNamespacePodAffinity").hold_pod(&pod, true), want, "{case}");
    }
}

#[test]
fn claims_are_in_scopes_by_attributes_class() {
    let gold = claim(json!({"volumeAttributesClassName": "gold"}), json!({}));
    let moving = claim(
        json!({"volumeAttributesClassName": "gold"}),
        json!({"currentVolumeAttributesClassName": "tin", "modifyVolumeStatus": {"targetVolumeAttributesClassName": "lead"}}),
    );
    let none = claim(json!({"volumeAttributesClassName": ""}), json!({}));
    #[rustfmt::skip]
    let table = [
        // selector                              gold   moving none
        ("VolumeAttributesClass Exists",         true,  true,  false),
        ("VolumeAttributesClass DoesNotExist",   false, false, true),
        ("VolumeAttributesClass In gold",        true,  true,  false),
        ("VolumeAttributesClass In tin",         false, true,  false),
        ("VolumeAttributesClass In lead",        false, true,  false),
        ("VolumeAttributesClass NotIn gold",     false, true,  true),
        ("PriorityClass Exists",                 false, false, false),
        ("Terminating Exists",                   false, false, false),
    ];
    for (text, in_gold, in_moving, in_none) in table {
        let got = [&gold, &moving, &none].map(|claim| selected(text).hold_claim(claim));
        assert_eq!(got, [in_gold, in_moving, in_none], "{text}");
    }
}

#[test]
fn all_scopes_must_hold() {
    let both = scopes(json!({
        "scopes": ["Terminating"],
        "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]},
    }));
    assert!(both.hold_pod(&pod(json!({"activeDeadlineSeconds": 1, "priorityClassName": "x"})), true));
    assert!(!both.hold_pod(&pod(json!({"priorityClassName": "x"})), true));
    assert!(!both.hold_pod(&pod(json!({"activeDeadlineSeconds": 1})), true));
    assert!(scopes(json!({})).is_empty() && !both.is_empty());
}
