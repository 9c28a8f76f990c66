use proptest::prelude::*;
use serde_json::{Value, json};

use super::{at, hpa, pods, samples, scope, settings};
use crate::horizontal::history::History;
use crate::horizontal::invariants::check;
use crate::horizontal::plan::{Course, Settings, View, course, decide, taken};
use crate::horizontal::replicas::by_average;
use crate::horizontal::report::{Desired, Report, is_news};

fn some_rules() -> impl Strategy<Value = Value> {
    let policy = (prop_oneof![Just("Pods"), Just("Percent")], 1..200_i32, 1..120_i32)
        .prop_map(|(type_, value, period)| json!({"type": type_, "value": value, "periodSeconds": period}));
    let select = prop_oneof![Just("Max"), Just("Min"), Just("Disabled")];
    (select, prop::collection::vec(policy, 1..4), 0..120_i32).prop_map(|(select, policies, window)| {
        json!({"selectPolicy": select, "policies": policies, "stabilizationWindowSeconds": window})
    })
}

fn some_behavior() -> impl Strategy<Value = Option<Value>> {
    prop::option::of(
        (some_rules(), some_rules()).prop_map(|(up, down)| json!({"scaleUp": up, "scaleDown": down})),
    )
}

proptest! {
    /// Whatever is recommended, again and again: bounds and policies hold at each step, and what was written is not
    /// written again.
    #[test]
    fn no_step_breaks_the_bounds_or_the_pace(
        behavior in some_behavior(), min in 1..5_i32, span in 0..30_i32, first in 1..40_i32,
        looks in prop::collection::vec((-3..60_i32, 1..90_i64), 1..20),
    ) {
        let max = min + span;
        let mut spec = json!({"minReplicas": min, "maxReplicas": max});
        if let Some(behavior) = behavior {
            spec["behavior"] = behavior;
        }
        let mut hpa = hpa(spec, json!({}));
        let settings = settings();
        let (mut history, mut current, mut now) = (History::default(), first, 0);
        for (recommended, later) in looks {
            now += later;
            let view = View { hpa: &hpa, current, settings: &settings, now: at(now) };
            let mut report = Report::new(&hpa, at(now));
            history.begin(current, at(now));
            let step = match course(&view) {
                Course::Off => unreachable!("nobody switches it off"),
                Course::Into(replicas, _) => {
                    prop_assert!((min..=max).contains(&replicas));
                    current = replicas;
                    continue;
                }
                Course::Measure => {
                    let before = history.clone();
                    let step = decide(&view, (recommended, "m"), &mut history, &mut report);
                    check(&view, &before, step.as_ref()).map_err(TestCaseError::fail)?;
                    step
                }
            };
            let desired = match &step {
                Some(step) => {
                    taken(&view, step, &mut history, &mut report);
                    Desired::Set(step.replicas)
                }
                None => Desired::AsIs,
            };
            let status = report.status(&hpa, current, desired, None);
            current = step.map_or(current, |step| step.replicas);
            prop_assert!((min..=max).contains(&current));
            prop_assert_eq!(is_news(&hpa.status, &status), hpa.status != status);
            hpa.status = status;
        }
    }

    /// A recommendation that stays is reached in the end, unless that is forbidden.
    #[test]
    fn a_lasting_recommendation_is_reached(first in 1..40_i32, wanted in 1..40_i32) {
        let hpa = hpa(json!({"minReplicas": 1, "maxReplicas": 40}), json!({}));
        let settings = settings();
        let (mut history, mut current) = (History::default(), first);
        for look in 0..40 {
            let view = View { hpa: &hpa, current, settings: &settings, now: at(look * 15) };
            history.begin(current, view.now);
            let mut report = Report::new(&hpa, view.now);
            if let Some(step) = decide(&view, (wanted, "m"), &mut history, &mut report) {
                current = step.replicas;
            }
        }
        prop_assert_eq!(current, wanted);
    }

    /// Pods that were not measured never make for fewer replicas than if they used what they should, nor for more.
    #[test]
    fn what_is_not_measured_only_holds_back(
        values in prop::collection::vec(0..3000_i64, 1..8), unmeasured in 0..5_usize, target in 1..2000_i64,
    ) {
        let words: Vec<String> = (0..values.len() + unmeasured).map(|n| format!("p{n}")).collect();
        let measures: Vec<String> = values.iter().enumerate().map(|(n, value)| format!("p{n}={value}")).collect();
        let replicas = i32::try_from(words.len()).unwrap();
        let all = pods(&words.join(" "));
        let known = pods(&words[..values.len()].join(" "));
        let samples = samples(&measures.join(" "));
        let (got, average) = by_average(&scope(&all, replicas, false), samples.clone(), target).unwrap();
        let (bold, same) = by_average(&scope(&known, replicas, false), samples, target).unwrap();
        prop_assert_eq!(average, same);
        if average < target {
            prop_assert!(got <= replicas, "{} of {}", got, replicas);
            prop_assert!(got >= bold.min(replicas), "{} is bolder than {}", got, bold);
        } else {
            prop_assert!(got >= replicas || average == target, "{} of {}", got, replicas);
        }
    }
}

#[test]
fn nothing_is_done_in_a_settled_world() {
    let settings = Settings { scale_to_zero: true, ..settings() };
    let hpa = hpa(json!({"minReplicas": 0}), json!({}));
    let view = View { hpa: &hpa, current: 3, settings: &settings, now: at(0) };
    let mut history = History::default();
    for _ in 0..3 {
        let mut report = Report::new(&hpa, at(0));
        assert_eq!(decide(&view, (3, "m"), &mut history, &mut report), None);
    }
}
