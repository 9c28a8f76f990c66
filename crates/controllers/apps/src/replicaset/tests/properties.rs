use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{ReplicaSet, ReplicationController};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::{now, pod, set};
use crate::replicaset::plan::{BURST, View, plan};
use crate::replicaset::{Replicated, invariants};

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("pending".to_owned()),
        Just("unscheduled".to_owned()),
        (0..100_000u32).prop_map(|age| format!("ready={age}")),
        (0..4u8).prop_map(|node| format!("on=node-{node}")),
        (-2..3i32).prop_map(|cost| format!("cost={cost}")),
        any::<i32>().prop_map(|cost| format!("cost={cost}")),
        (0..50u8).prop_map(|count| format!("restarts={count}")),
        (0..100_000u32).prop_map(|age| format!("age={age}")),
    ]
}

fn crowd() -> impl Strategy<Value = Vec<Arc<Pod>>> {
    let words = proptest::collection::vec(proptest::collection::vec(word(), 0..5), 0..40);
    words.prop_map(|words| {
        let pods = words.iter().enumerate().map(|(n, words)| pod(&format!("p{n}:{}", words.join(","))));
        pods.collect()
    })
}

/// This many equal pods.
fn alike(name: &str, count: usize) -> Vec<Arc<Pod>> {
    let one = pod(&format!("{name}:ready"));
    let numbered = |n: usize| {
        let mut pod = one.clone();
        Arc::make_mut(&mut pod).metadata.uid = format!("uid-{name}-{n}").as_str().into();
        pod
    };
    (0..count).map(numbered).collect()
}

fn replica_set(replicas: i32, is_deleting: bool) -> ReplicaSet {
    let mut set = set(json!({"replicas": replicas}), json!({}));
    set.metadata.deletion_timestamp = is_deleting.then(now);
    set
}

fn replication_controller(replicas: i32, is_deleting: bool) -> ReplicationController {
    let replica_set = replica_set(replicas, is_deleting);
    let mut object: Value = serde_json::to_value(&replica_set).unwrap();
    object["spec"]["selector"] = json!({"app": "web"});
    serde_json::from_value(object).unwrap()
}

/// Carries plans out until there is nothing to do; returns the number of pods then, and the number of plans.
fn obey<T: Replicated>(set: &T, mut pods: Vec<Arc<Pod>>, family: &[Arc<Pod>]) -> (usize, usize) {
    for plans in 0..100 {
        let view = View { set, pods: &pods, family, has_costs: true, now: now() };
        let planned = plan(&view);
        invariants::check(&view, &planned).unwrap();
        assert_eq!(planned.to_string(), plan(&view).to_string(), "the same snapshot gives the same plan");
        let writes = planned.writes();
        let gone: Vec<_> = writes.iter().filter_map(|write| Some(write.tag?.metadata.uid.clone())).collect();
        let made = writes.len() - gone.len();
        if writes.is_empty() {
            return (pods.len(), plans);
        }
        pods.retain(|pod| !gone.contains(&pod.metadata.uid));
        pods.extend(alike(&format!("new-{plans}"), made));
    }
    panic!("no end in sight");
}

/// The number of replicas is reached in as few plans as bursts allow; a set that is being deleted keeps its pods.
fn comes_to_rest<T: Replicated>(set: &T, pods: Vec<Arc<Pod>>, family: &[Arc<Pod>]) {
    let (have, want) = (pods.len(), if set.is_deleting() { pods.len() } else { set.replicas() });
    assert_eq!(obey(set, pods, family), (want, have.abs_diff(want).div_ceil(BURST)));
}

proptest! {
    #[test]
    fn every_plan_keeps_the_invariants_and_leads_to_the_number_of_replicas(
        replicas in -3..40i32, pods in crowd(), others in crowd(), has_owner: bool, is_deleting in prop::bool::weighted(0.1),
    ) {
        // A set without an owner has no siblings.
        let family: Vec<_> = if has_owner { pods.iter().chain(&others).cloned().collect() } else { vec![] };
        comes_to_rest(&replica_set(replicas, is_deleting), pods.clone(), &family);
        comes_to_rest(&replication_controller(replicas, is_deleting), pods, &family);
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn large_sets_change_in_bursts(have in 0..3 * BURST, want in 0..3 * BURST) {
        comes_to_rest(&replica_set(i32::try_from(want).unwrap(), false), alike("p", have), &[]);
    }
}
