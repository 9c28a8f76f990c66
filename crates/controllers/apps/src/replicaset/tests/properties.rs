use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{ReplicaSet, ReplicationController};
use proptest::prelude::*;
use serde_json::json;

use super::world::{self, now, pod, set};
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
    let mut controller = world::replication_controller(replicas);
    controller.metadata.deletion_timestamp = is_deleting.then(now);
    controller
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

/// Whether upstream deletes one ready pod before another on the same node: each is (seconds ready, restarts, age, number).
fn comes_first(one: (u32, u8, u32, usize), two: (u32, u8, u32, usize)) -> bool {
    let magnitude = |seconds: u32| (f64::from(seconds) * 1e9).log2() as i64;
    let by_age = |a: u32, b: u32| (magnitude(a), one.3) < (magnitude(b), two.3);
    match (one.0 == two.0, one.1 == two.1) {
        (false, _) => by_age(one.0, two.0),
        (true, false) => one.1 > two.1,
        (true, true) => by_age(one.2, two.2),
    }
}

proptest! {
    #[test]
    fn pods_are_deleted_in_the_order_of_upstream_where_it_does_not_contradict_itself(
        pods in proptest::collection::vec((prop::sample::select(vec![3000u32, 3500, 9000]), 0..3u8, prop::sample::select(vec![5000u32, 6000, 20_000])), 2..6),
    ) {
        let pods: Vec<_> = pods.into_iter().enumerate().map(|(n, (ready, restarts, age))| (ready, restarts, age, n)).collect();
        let beaten = |one: &(u32, u8, u32, usize)| pods.iter().filter(|two| one.3 != two.3 && comes_first(*one, **two)).count();
        let mut order = pods.clone();
        order.sort_by_key(|pod| std::cmp::Reverse(beaten(pod)));
        let is_total = order.iter().rev().enumerate().all(|(n, pod)| beaten(pod) == n);
        let words: Vec<_> = pods.iter().rev().map(|(ready, restarts, age, n)| format!("{n}:ready={ready},restarts={restarts},age={age}")).collect();
        let want: Vec<_> = order[..pods.len() - 1].iter().map(|pod| format!("delete {}", pod.3)).collect();
        if is_total {
            prop_assert_eq!(world::planned(1, &words.join(" "), ""), want.join(", "));
        }
    }
}
