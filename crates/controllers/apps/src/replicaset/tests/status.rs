use flyball_api::replica_set::ReplicaSetStatus;
use serde_json::{Value, json};

use super::world::{now, pods, set};
use crate::replicaset::plan::View;
use crate::replicaset::status::status;

fn computed(spec: Value, before: Value, own: &str, failure: Option<&str>) -> ReplicaSetStatus {
    let set = set(spec, before);
    let own = pods(own);
    status(&View { set: &set, pods: &own, family: &[], has_costs: true, now: now() }, Some(1), failure)
}

#[test]
fn pods_are_counted_by_label_readiness_and_availability() {
    #[rustfmt::skip]
    let table = [
        // pods                                     min ready  all  labelled  ready  available
        ("",                                                0, (0, 0, 0, 0)),
        ("a:ready b:running",                               0, (2, 2, 1, 1)),
        ("a:ready=5 b:ready=60",                           10, (2, 2, 2, 1)),
        ("a:ready=10",                                     10, (1, 1, 1, 1)),
        ("a:ready,label=web b:ready",                       0, (2, 1, 2, 2)),
    ];
    for (own, min_ready, want) in table {
        let got = computed(json!({"minReadySeconds": min_ready}), json!({}), own, None);
        let got = (got.replicas, got.fully_labeled_replicas, got.ready_replicas, got.available_replicas);
        assert_eq!(got, want, "{own}");
    }
}

#[test]
fn the_status_has_the_observed_generation_and_the_terminating_pods() {
    let got = computed(json!({}), json!({}), "a:ready", None);
    assert_eq!((got.observed_generation, got.terminating_replicas), (3, Some(1)));
    let (set, pods) = (set(json!({}), json!({})), pods(""));
    let uncounted =
        status(&View { set: &set, pods: &pods, family: &[], has_costs: true, now: now() }, None, None);
    assert_eq!(uncounted.terminating_replicas, None);
}

#[test]
fn a_failure_is_a_condition_while_it_lasts_and_keeps_its_first_message() {
    let fresh = computed(json!({}), json!({}), "a", Some("quota"));
    let condition = &fresh.conditions[0];
    assert_eq!(
        (condition.type_.as_str(), condition.reason.as_str(), condition.message.as_str()),
        ("ReplicaFailure", "FailedCreate", "quota")
    );

    let surplus = computed(json!({"replicas": 0}), json!({}), "a", Some("no"));
    assert_eq!(surplus.conditions[0].reason, "FailedDelete");

    let before = json!({"conditions": fresh.conditions});
    assert_eq!(computed(json!({}), before.clone(), "a", Some("other")).conditions, fresh.conditions);
    assert!(computed(json!({}), before, "a", None).conditions.is_empty());
}

#[test]
fn conditions_of_other_controllers_are_kept() {
    let before = json!({"conditions": [{"type": "Theirs", "status": "True"}]});
    let got = computed(json!({}), before, "a b", None);
    assert_eq!(got.conditions[0].type_, "Theirs");
}
