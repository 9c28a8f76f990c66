use proptest::prelude::*;
use serde_json::{Value, json};

use super::{at, hpa, pods, samples, settings, workload};
use crate::horizontal::after::rescaled;
use crate::horizontal::decision::{NextStep, Recommendation, Scaling, Settings, next_step, rescale};
use crate::horizontal::history::History;
use crate::horizontal::invariants::check_rescale;
use crate::horizontal::replicas::by_average;
use crate::horizontal::status::{Desired, Report, is_new};

fn recommendation(replicas: i32) -> Recommendation {
    Recommendation { replicas, metric: "m".to_owned(), unchanged: None }
}

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
    /// Bounds and policies hold for each rescale, whatever is recommended, and a status that was written is not written
    /// again.
    #[test]
    fn no_rescale_breaks_the_bounds_or_the_policies(
        behavior in some_behavior(), min in 1..5_i32, span in 0..30_i32, first in 1..40_i32,
        syncs in prop::collection::vec((-3..60_i32, 1..90_i64), 1..20),
    ) {
        let max = min + span;
        let mut spec = json!({"minReplicas": min, "maxReplicas": max});
        if let Some(behavior) = behavior {
            spec["behavior"] = behavior;
        }
        let mut hpa = hpa(spec, json!({}));
        let settings = settings();
        let (mut history, mut current, mut now) = (History::default(), first, 0);
        for (recommended, later) in syncs {
            now += later;
            let scaling = Scaling { hpa: &hpa, current, scaled_to_zero: false, left_zero: false, settings: &settings, now: at(now) };
            let mut report = Report::new(&hpa, at(now));
            history.begin(current, at(now));
            let rescale = match next_step(&scaling) {
                NextStep::Disabled => unreachable!("the workload is never scaled to zero"),
                NextStep::ScaleTo(replicas, _) => {
                    prop_assert!((min..=max).contains(&replicas));
                    current = replicas;
                    continue;
                }
                NextStep::ReadMetrics => {
                    let before = history.clone();
                    let (rescale, _) = rescale(&scaling, &recommendation(recommended), &mut history, &mut report);
                    if let Some(rescale) = &rescale {
                        check_rescale(&scaling, &before, rescale).map_err(TestCaseError::fail)?;
                    }
                    rescale
                }
            };
            let desired = match &rescale {
                Some(rescale) => {
                    rescaled(&scaling, rescale, &mut history, &mut report);
                    Desired::Set(rescale.replicas)
                }
                None => Desired::AsIs,
            };
            let status = report.status(&hpa, current, desired, None);
            current = rescale.map_or(current, |rescale| rescale.replicas);
            prop_assert!((min..=max).contains(&current));
            prop_assert_eq!(is_new(&hpa.status, &status), hpa.status != status);
            hpa.status = status;
        }
    }

    /// A recommendation that does not change is reached in the end.
    #[test]
    fn a_lasting_recommendation_is_reached(first in 1..40_i32, wanted in 1..40_i32) {
        let hpa = hpa(json!({"minReplicas": 1, "maxReplicas": 40}), json!({}));
        let settings = settings();
        let (mut history, mut current) = (History::default(), first);
        for sync in 0..40 {
            let scaling = Scaling { hpa: &hpa, current, scaled_to_zero: false, left_zero: false, settings: &settings, now: at(sync * 15) };
            history.begin(current, scaling.now);
            let mut report = Report::new(&hpa, scaling.now);
            if let (Some(rescale), _) = rescale(&scaling, &recommendation(wanted), &mut history, &mut report) {
                current = rescale.replicas;
            }
        }
        prop_assert_eq!(current, wanted);
    }

    /// Pods without samples never lead to fewer replicas than without them, nor to more.
    #[test]
    fn pods_without_samples_only_dampen_a_rescale(
        values in prop::collection::vec(0..3000_i64, 1..8), unmeasured in 0..5_usize, target in 1..2000_i64,
    ) {
        let words: Vec<String> = (0..values.len() + unmeasured).map(|n| format!("p{n}")).collect();
        let measures: Vec<String> = values.iter().enumerate().map(|(n, value)| format!("p{n}={value}")).collect();
        let replicas = i32::try_from(words.len()).unwrap();
        let all = pods(&words.join(" "));
        let known = pods(&words[..values.len()].join(" "));
        let samples = samples(&measures.join(" "));
        let (count, average) = by_average(&workload(&all, replicas, false), samples.clone(), target).unwrap();
        let (measured, same) = by_average(&workload(&known, replicas, false), samples, target).unwrap();
        let (got, measured) = (count.replicas, measured.replicas);
        prop_assert_eq!(average, same);
        if average < target {
            prop_assert!(got <= replicas, "{} of {}", got, replicas);
            prop_assert!(got >= measured.min(replicas), "{} is below {}", got, measured);
        } else {
            prop_assert!(got >= replicas || average == target, "{} of {}", got, replicas);
        }
    }
}

#[test]
fn nothing_is_done_when_the_recommendation_is_met() {
    let settings = Settings { scale_to_zero: true, ..settings() };
    let hpa = hpa(json!({"minReplicas": 0}), json!({}));
    let scaling = Scaling {
        hpa: &hpa,
        current: 3,
        scaled_to_zero: false,
        left_zero: false,
        settings: &settings,
        now: at(0),
    };
    let mut history = History::default();
    for _ in 0..3 {
        let mut report = Report::new(&hpa, at(0));
        assert_eq!(rescale(&scaling, &recommendation(3), &mut history, &mut report).0, None);
    }
}
