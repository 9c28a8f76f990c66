use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{at, budget, pod, time, view};
use crate::disruption::invariants::{check, written};
use crate::disruption::plan::{View, plan};
use crate::disruption::status::fail_safe;

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
    fn allowed_disruptions_never_leave_fewer_pods_than_required(
        words in some_pods(), spec in some_spec(), evicted in some_evictions(), scale in 0..12_i32, now in -100..300_i64,
    ) {
        let known = json!({"disruptedPods": evicted, "disruptionsAllowed": 3});
        let mut budget = budget(spec, known);
        let pods: Vec<_> = words.iter().map(|word| Arc::new(pod(word))).collect();
        let before = View { scale: Ok(scale), ..view(&budget, &pods, now) };
        let planned = plan(&before);
        check(&before, &planned).map_err(TestCaseError::fail)?;
        let new = written(&planned).expect("a budget without a condition gets one");

        // Evicting all pods that may be disrupted leaves enough.
        let left = new.current_healthy - new.disruptions_allowed;
        prop_assert!(new.disruptions_allowed == 0 || left >= new.desired_healthy);

        // Once written, it does not change until time passes or pods change.
        budget.status = new;
        let after = View { scale: Ok(scale), ..view(&budget, &pods, now) };
        prop_assert!(plan(&after).status.is_none());

        // A failure allows no disruption.
        let closed = fail_safe(&budget, "problem", at(now)).expect("the condition changes");
        prop_assert_eq!(closed.disruptions_allowed, 0);
    }
}
