use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{at, budget, pod, time};
use crate::disruption::demand::Demand;
use crate::disruption::invariants::check;
use crate::disruption::plan::{View, count};
use crate::disruption::status::{fail_safe, status};

fn some_pods() -> impl Strategy<Value = Vec<String>> {
    let traits =
        prop_oneof![Just("ready"), Just("unready"), Just("ready,going"), Just("ready,of-x"), Just("done")];
    prop::collection::vec(traits, 0..8)
        .prop_map(|all| all.iter().enumerate().map(|(n, traits)| format!("p{n}:{traits}")).collect())
}

fn some_spec() -> impl Strategy<Value = Value> {
    let amount =
        prop_oneof![(0..12_i32).prop_map(|n| json!(n)), (0..=100).prop_map(|n| json!(format!("{n}%")))];
    let bound = prop_oneof![Just("minAvailable"), Just("maxUnavailable")];
    prop_oneof![Just(json!({})), (bound, amount).prop_map(|(bound, amount)| json!({bound: amount}))]
}

fn some_evictions() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map(0..9_usize, -200..200_i64, 0..5)
        .prop_map(|all| all.into_iter().map(|(n, when)| (format!("p{n}"), json!(time(when)))).collect())
}

proptest! {
    #[test]
    fn who_may_go_never_leaves_fewer_than_must_stay(
        words in some_pods(), spec in some_spec(), evicted in some_evictions(), scale in 0..12_i32, now in -100..300_i64,
    ) {
        let known = json!({"disruptedPods": evicted, "disruptionsAllowed": 3});
        let mut budget = budget(spec, known);
        let pods: Vec<_> = words.iter().map(|word| Arc::new(pod(word))).collect();
        let quota = Demand::of(&budget.spec).quota(pods.len(), scale).unwrap();
        let view = View { budget: &budget, pods: &pods, now: at(now) };
        let new = status(&view, &count(&view), quota);
        let new = new.expect("a budget without a condition gets one");
        check(&view, quota, &new).map_err(TestCaseError::fail)?;

        // Evicting all who may go, one by one, leaves enough.
        let left = new.current_healthy - new.disruptions_allowed;
        prop_assert!(new.disruptions_allowed == 0 || left >= new.desired_healthy);

        // Once written, there is nothing more to say until time or pods move on.
        budget.status = new;
        let view = View { budget: &budget, pods: &pods, now: at(now) };
        prop_assert_eq!(status(&view, &count(&view), quota), None);

        // And a failure always closes the door.
        let closed = fail_safe(&budget, "problem", at(now)).expect("there is something to say");
        prop_assert_eq!(closed.disruptions_allowed, 0);
    }
}
