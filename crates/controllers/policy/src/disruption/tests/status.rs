use serde_json::{Value, json};

use super::{at, budget, pods, time, view};
use crate::disruption::census::count;
use crate::disruption::demand::Required;
use crate::disruption::status::{fail_safe, status};

fn condition(holds: &str, reason: &str, generation: i64) -> Value {
    json!([{"type": "DisruptionAllowed", "status": holds, "reason": reason, "observedGeneration": generation,
        "lastTransitionTime": time(-60)}])
}

#[test]
fn more_healthy_pods_than_desired_may_be_disrupted() {
    #[rustfmt::skip]
    let table = [
        // case                    pods                        expected desired  allowed
        ("one to spare",           "a:ready b:ready",                 2,      1,  "1 True SufficientPods"),
        ("none to spare",          "a:ready b:unready",               2,      1,  "0 False InsufficientPods"),
        ("too few already",        "a:unready b:unready",             2,      1,  "0 False InsufficientPods"),
        ("nothing is demanded",    "a:ready b:ready",                 2,      0,  "2 True SufficientPods"),
        ("no pod is expected",     "a:ready",                         0,      0,  "0 False InsufficientPods"),
        ("a scale below zero",     "a:ready",                        -1,      0,  "0 False InsufficientPods"),
        ("more than should be",    "a:ready b:ready c:ready",         1,      1,  "2 True SufficientPods"),
    ];
    for (case, words, expected, desired, want) in table {
        let (pods, budget) = (pods(words), budget(json!({"minAvailable": 1}), json!({})));
        let view = view(&budget, &pods, 0);
        let new = status(&view, &count(&view), Required { expected, desired }).unwrap();
        let condition = &new.conditions[0];
        let got = format!("{} {} {}", new.disruptions_allowed, condition.status, condition.reason);
        assert_eq!((got.as_str(), new.conditions.len(), new.observed_generation), (want, 1, 3), "{case}");
    }
}

#[test]
fn an_unchanged_status_is_not_written() {
    let right = json!({
        "observedGeneration": 3, "disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 0,
        "expectedPods": 1, "conditions": condition("True", "SufficientPods", 3),
    });
    #[rustfmt::skip]
    let table = [
        // case                          field                 value                                is written
        ("settled",                      "expectedPods",       json!(1),                                 false),
        ("condition of a generation ago","conditions",         condition("True", "SufficientPods", 2),        false),
        ("no condition",                 "conditions",         json!([]),                                true),
        ("failed before",                "conditions",         condition("False", "SyncFailed", 3),           true),
        ("old generation",               "observedGeneration", json!(2),                                 true),
        ("other numbers",                "desiredHealthy",     json!(1),                                 true),
        ("a disrupted pod is gone",      "disruptedPods",      json!({"gone": time(0)}),                 true),
        ("an empty map",                 "disruptedPods",      json!({}),                                false),
    ];
    for (case, field, value, written) in table {
        let mut known = right.clone();
        known[field] = value;
        let (pods, budget) = (pods("a:ready"), budget(json!({"minAvailable": 0}), known));
        let view = view(&budget, &pods, 0);
        let new = status(&view, &count(&view), Required { expected: 1, desired: 0 });
        assert_eq!(new.is_some(), written, "{case}");
    }
}

#[test]
fn the_transition_time_moves_with_the_status_only() {
    for (holds, reason, moved) in [("True", "Other", false), ("False", "SyncFailed", true)] {
        let (pods, budget) =
            (pods("a:ready"), budget(json!({}), json!({"conditions": condition(holds, reason, 3)})));
        let view = view(&budget, &pods, 0);
        let new = status(&view, &count(&view), Required { expected: 1, desired: 0 }).unwrap();
        let since = new.conditions[0].last_transition_time;
        assert_eq!((since, new.conditions[0].message.as_str()), (Some(at(if moved { 0 } else { -60 })), ""));
    }
}

#[test]
fn a_failure_allows_no_disruption_and_keeps_the_other_numbers() {
    let known = json!({
        "observedGeneration": 2, "disruptionsAllowed": 4, "currentHealthy": 5, "desiredHealthy": 1,
        "expectedPods": 5, "disruptedPods": {"a": time(0)}, "conditions": condition("True", "SufficientPods", 2),
    });
    let before = budget(json!({}), known);
    let new = fail_safe(&before, "no scale", at(0)).unwrap();
    let condition = &new.conditions[0];
    assert_eq!((new.disruptions_allowed, new.current_healthy, new.observed_generation), (0, 5, 2));
    assert_eq!(new.disrupted_pods, before.status.disrupted_pods);
    assert_eq!(
        (&*condition.status, &*condition.reason, &*condition.message),
        ("False", "SyncFailed", "no scale")
    );
    assert_eq!(condition.observed_generation, 2, "the numbers are those of a generation ago");
    let mut after = before;
    after.status = new;
    assert_eq!(fail_safe(&after, "no scale", at(9)), None, "nothing new");
    assert!(fail_safe(&after, "no kind", at(9)).is_some(), "another problem");
}
