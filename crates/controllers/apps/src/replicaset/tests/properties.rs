use proptest::prelude::*;
use serde_json::json;

use super::world::{now, pod, set};
use crate::replicaset::invariants;
use crate::replicaset::plan::{View, plan};

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("pending".to_owned()),
        Just("unscheduled".to_owned()),
        (0..100_000u32).prop_map(|age| format!("ready={age}")),
        (0..4u8).prop_map(|node| format!("on=node-{node}")),
        any::<i32>().prop_map(|cost| format!("cost={cost}")),
        (0..50u8).prop_map(|count| format!("restarts={count}")),
        (0..100_000u32).prop_map(|age| format!("age={age}")),
    ]
}

proptest! {
    #[test]
    fn every_plan_keeps_the_invariants(
        replicas in -3..40i32,
        words in proptest::collection::vec(proptest::collection::vec(word(), 0..5), 0..40),
    ) {
        let set = set(json!({"replicas": replicas}), json!({}));
        let pods: Vec<_> = words.iter().enumerate().map(|(n, words)| pod(&format!("p{n}:{}", words.join(",")))).collect();
        let view = View { set: &set, pods: &pods, family: &pods, now: now() };
        let actions = plan(&view);
        prop_assert_eq!(invariants::check(&view, &actions), Ok(()));
        prop_assert_eq!(actions, plan(&view), "the same snapshot gives the same plan");
    }
}
