use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{PodDisruptionBudget, ReplicaSet};
use flyball_cache::{Change, Origin, Store};
use serde_json::json;

use super::pod;
use crate::disruption::triggers::{owner_changed, pod_changed};

fn budget(name: &str, spec: serde_json::Value) -> PodDisruptionBudget {
    serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": name}, "spec": spec})).unwrap()
}

/// Budgets over `app: x` (by number and by percentage), `app: y`, everything, and nothing.
fn budgets(everything: bool) -> Store<PodDisruptionBudget> {
    let over = |app: &str| json!({"selector": {"matchLabels": {"app": app}}, "minAvailable": 1});
    let mut all =
        vec![budget("x", over("x")), budget("y", over("y")), budget("none", json!({"minAvailable": 1}))];
    if everything {
        all.push(budget("all", json!({"selector": {}, "maxUnavailable": 1})));
    }
    let unlabelled = json!({"selector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}});
    all.push(budget("bare", unlabelled));
    Store::from_iter(all)
}

#[test]
fn a_change_of_a_pod_concerns_its_budgets() {
    #[rustfmt::skip]
    let table = [
        // case                          old                 new                 concerned
        ("new",                          "",                 "p",                "x"),
        ("gone",                         "p",                "",                 "x"),
        ("became ready",                 "p:unready",        "p:ready",          "x"),
        ("is to go",                     "p:ready",          "p:ready,going",    "x"),
        ("found an owner",               "p",                "p:of-o",           "x"),
        ("nothing that counts",          "p:ready",          "p:ready",          ""),
        ("moved to another budget",      "p:label-x",        "p:label-y",        "x y"),
        ("moved and became ready",       "p:label-x",        "p:label-y,ready",  "x y"),
        ("left all budgets",             "p:label-x",        "p:label-z",        "x"),
        ("in no budget",                 "p:label-z",        "p:label-z,ready",  ""),
    ];
    for (case, old, new, want) in table {
        let make = |word: &str| (!word.is_empty()).then(|| Arc::new(pod(word)));
        let (old, new) = (make(old), make(new));
        let change = Change { old: old.as_ref(), new: new.as_ref(), origin: Origin::Watch };
        let concerned = pod_changed(&change, &budgets(false));
        let names: Vec<&str> = concerned.budgets.iter().map(|key| key.name.as_str()).collect();
        assert_eq!((names.join(" ").as_str(), concerned.pod), (want, None), "{case}");
    }
}

#[test]
fn a_pod_in_several_budgets_or_about_to_be_disrupted_is_synced_itself() {
    let bare: Pod = serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": "p"}})).unwrap();
    let target: Pod = serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "p"},
        "status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]},
    }))
    .unwrap();
    let table = [
        ("in one", pod("p"), false, "x", false),
        ("in two", pod("p"), true, "all x", true),
        ("without labels in one", bare, false, "bare", false),
        ("about to go", target, false, "bare", true),
    ];
    for (case, pod, everything, want, looked_at) in table {
        let pod = Arc::new(pod);
        let change = Change { old: None, new: Some(&pod), origin: Origin::Initial };
        let concerned = pod_changed(&change, &budgets(everything));
        let names: Vec<&str> = concerned.budgets.iter().map(|key| key.name.as_str()).collect();
        assert_eq!((names.join(" ").as_str(), concerned.pod.is_some()), (want, looked_at), "{case}");
        let resync = Change { old: Some(&pod), new: Some(&pod), origin: Origin::Resync };
        assert_eq!(pod_changed(&resync, &budgets(everything)), Default::default(), "{case}");
    }
}

#[test]
fn budgets_that_depend_on_the_scale_of_an_owner_hear_of_it() {
    let set = |replicas: i32, app: &str| -> Arc<ReplicaSet> {
        let spec = json!({"replicas": replicas, "template": {"metadata": {"labels": {"app": app}}}});
        let meta = json!({"namespace": "ns", "name": "s", "uid": "uid-s"});
        Arc::new(serde_json::from_value(json!({"metadata": meta, "spec": spec})).unwrap())
    };
    #[rustfmt::skip]
    let table = [
        // case        old                  new                 origin            concerned
        ("scaled",     Some(set(1, "x")),   Some(set(2, "x")),  Origin::Watch,    "all"), // `x` wants a number of pods
        ("the same",   Some(set(1, "x")),   Some(set(1, "x")),  Origin::Watch,    ""),
        ("new",        None,                Some(set(1, "x")),  Origin::Watch,    "all"),
        ("listed",     None,                Some(set(1, "x")),  Origin::Initial,  ""),
        ("gone",       Some(set(1, "x")),   None,               Origin::Relist,   "all"),
    ];
    for (case, old, new, origin, want) in table {
        let change = Change { old: old.as_ref(), new: new.as_ref(), origin };
        let concerned = owner_changed(&change, &budgets(true));
        let names: Vec<&str> = concerned.iter().map(|key| key.name.as_str()).collect();
        assert_eq!(names.join(" "), want, "{case}");
    }
}
