use flyball_api::horizontal_pod_autoscaler::MetricStatus;
use serde_json::{Value, json};

use super::{at, hpa, settings};
use crate::horizontal::after::rescaled;
use crate::horizontal::decision::{
    NextStep, Recommendation, Rescale, Scaling, Settings, evaluate, next_step, rescale,
};
use crate::horizontal::history::History;
use crate::horizontal::metric::InvalidMetric;
use crate::horizontal::proposal::Proposal;
use crate::horizontal::replicas::Count;
use crate::horizontal::status::{Desired, Report, is_new};

fn external() -> Value {
    json!([{"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "5"}}}])
}

fn scaled_to_zero() -> Value {
    json!({"conditions": [{"type": "ScaledToZero", "status": "True"}]})
}

#[test]
fn the_present_number_decides_whether_metrics_are_needed() {
    let zero_allowed = Settings { scale_to_zero: true, ..settings() };
    let zero_forbidden = settings();
    let cpu = json!({});
    let from_zero = json!({"minReplicas": 0, "metrics": external()});
    let raised = json!({"minReplicas": 2});
    #[rustfmt::skip]
    let table = [
        // case                                       settings  spec        status           current  want
        ("within bounds",                             &zero_forbidden, &cpu,       json!({}),       5,  NextStep::ReadMetrics),
        ("at the bounds",                             &zero_forbidden, &cpu,       json!({}),       10, NextStep::ReadMetrics),
        ("too many",                                  &zero_forbidden, &cpu,       json!({}),       11, NextStep::ScaleTo(10, "Current number of replicas above Spec.MaxReplicas")),
        ("too few",                                   &zero_forbidden, &raised,    json!({}),       1,  NextStep::ScaleTo(2, "Current number of replicas below Spec.MinReplicas")),
        ("scaled to zero",                           &zero_forbidden, &cpu,       json!({}),       0,  NextStep::Disabled),
        ("scaled to zero by a user, though the autoscaler may", &zero_allowed, &from_zero, json!({}),       0,  NextStep::Disabled),
        ("scaled to zero by itself",                  &zero_allowed,  &from_zero, scaled_to_zero(),  0,  NextStep::ReadMetrics),
        ("the gate is off now",                       &zero_forbidden, &from_zero, scaled_to_zero(),  0,  NextStep::Disabled),
        ("no metric without pods",                     &zero_allowed,  &json!({"minReplicas": 0}), scaled_to_zero(), 0, NextStep::Disabled),
        ("but minReplicas was raised",                 &zero_allowed,  &raised,    scaled_to_zero(),  0,  NextStep::ReadMetrics),
    ];
    for (case, settings, spec, status, current, want) in table {
        let hpa = hpa(spec.clone(), status);
        let scaling =
            Scaling { hpa: &hpa, current, scaled_to_zero: false, left_zero: false, settings, now: at(0) };
        assert_eq!(next_step(&scaling), want, "{case}");
    }
}

fn conditions(report: &Report) -> String {
    let status = report.unchanged(&hpa(json!({}), json!({})));
    let one = |c: &flyball_api::Condition| format!("{}={} {}", c.type_, c.status, c.reason);
    status.conditions.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_highest_proposal_counts_and_invalid_metrics_prevent_scaling_down() {
    let ok = |replicas: i32, name: &str| {
        Ok(Proposal {
            count: Count { replicas, unchanged: None },
            name: name.to_owned(),
            status: MetricStatus { type_: "Pods".into(), ..MetricStatus::default() },
        })
    };
    let bad = |error: &str| {
        Err(InvalidMetric {
            reason: "FailedGetPodsMetric",
            message: format!("no {error}"),
            error: error.to_owned(),
            is_spec_error: false,
        })
    };
    let hpa = hpa(json!({}), json!({}));
    let settings = settings();
    let scaling = Scaling {
        hpa: &hpa,
        current: 5,
        scaled_to_zero: false,
        left_zero: false,
        settings: &settings,
        now: at(0),
    };
    #[rustfmt::skip]
    let table = [
        // case                                proposals                             recommended     shown     said
        ("one",                                vec![ok(7, "a")],                     "7 by a",       "Pods",   "ScalingActive=True ValidMetricFound"),
        ("the highest",                        vec![ok(3, "a"), ok(7, "b"), ok(7, "c")], "7 by b",   "Pods Pods Pods", "ScalingActive=True ValidMetricFound"),
        ("all of them below",                  vec![ok(2, "a"), ok(3, "b")],         "3 by b",       "Pods Pods", "ScalingActive=True ValidMetricFound"),
        ("zero replicas",                      vec![ok(0, "a")],                     "0 by a",       "Pods",   "ScalingActive=True ValidMetricFound"),
        ("one invalid, up",                      vec![bad("x"), ok(7, "b")],           "7 by b; invalid metrics (1 invalid out of 2), first error is: x", " Pods", "ScalingActive=True ValidMetricFound"),
        ("one invalid, same",                      vec![ok(5, "a"), bad("x")],           "5 by a; invalid metrics (1 invalid out of 2), first error is: x", "Pods ", "ScalingActive=True ValidMetricFound"),
        ("two invalid, down",                    vec![ok(4, "a"), bad("x"), bad("y")], "; invalid metrics (2 invalid out of 3), first error is: x", "Pods  ", "ScalingActive=False FailedGetPodsMetric"),
        ("all invalid",                               vec![bad("x")],                       "; invalid metrics (1 invalid out of 1), first error is: x", "", "ScalingActive=False FailedGetPodsMetric"),
    ];
    for (case, proposals, want, shown, expected) in table {
        let failures = proposals.iter().filter(|proposal| proposal.is_err()).count();
        let mut report = Report::new(&hpa, at(0));
        let evaluated = evaluate(&scaling, proposals, &mut report);
        let recommended = evaluated.recommended.map(|r| format!("{} by {}", r.replicas, r.metric));
        let error = evaluated.error.map(|error| format!("; {error}")).unwrap_or_default();
        assert_eq!(format!("{}{error}", recommended.unwrap_or_default()), want, "{case}");
        let types: Vec<_> = evaluated.statuses.unwrap().iter().map(|m| m.type_.to_string()).collect();
        assert_eq!(types.join(" "), shown, "{case}");
        assert_eq!(conditions(&report), expected, "{case}");
        assert_eq!(report.events.len(), failures, "{case}: an event for each invalid metric");
    }
}

#[test]
fn a_rescale_states_its_reason() {
    let zero_allowed = Settings { scale_to_zero: true, ..settings() };
    let none = Settings { downscale_window: jiff::SignedDuration::ZERO, ..settings() };
    #[rustfmt::skip]
    let table = [
        // case                        settings  spec                     status          current recommended want                                          said
        ("up",                         &none,    json!({}),               json!({}),      3,  5,  "5 because m above target",                  "AbleToScale=True ReadyForNewScale, ScalingLimited=False DesiredWithinRange"),
        ("down",                       &none,    json!({}),               json!({}),      3,  2,  "2 because All metrics below target",        "AbleToScale=True ReadyForNewScale, ScalingLimited=False DesiredWithinRange"),
        ("down to minReplicas",        &none,    json!({"minReplicas": 2}), json!({}),    3,  0,  "2 because All metrics below target",        "AbleToScale=True ReadyForNewScale, ScalingLimited=True TooFewReplicas"),
        ("at minReplicas",             &none,    json!({"minReplicas": 2}), json!({}),    2,  1,  "",                                          "AbleToScale=True ReadyForNewScale, ScalingLimited=True TooFewReplicas"),
        ("up to maxReplicas",           &none,    json!({"maxReplicas": 4}), json!({}),    3,  9,  "4 because m above target",                  "AbleToScale=True ReadyForNewScale, ScalingLimited=True TooManyReplicas"),
        ("too fast",                   &none,    json!({"maxReplicas": 99}), json!({}),   3,  90, "6 because m above target",                  "AbleToScale=True ReadyForNewScale, ScalingLimited=True ScaleUpLimit"),
        ("no change",                  &none,    json!({}),               json!({}),      3,  3,  "",                                          "AbleToScale=True ReadyForNewScale, ScalingLimited=False DesiredWithinRange"),
        ("less than zero",             &none,    json!({}),               json!({}),      3,  -5, "1 because All metrics below target",        "AbleToScale=True ReadyForNewScale, ScalingLimited=True TooFewReplicas"),
        ("back from zero",             &zero_allowed,  json!({"minReplicas": 0, "metrics": external()}), scaled_to_zero(), 0, 2, "2 because m above target", "ScaledToZero=True , AbleToScale=True ReadyForNewScale, ScalingLimited=False DesiredWithinRange"),
        // Upstream: the bounds are applied first, without a reason.
        ("minReplicas was raised",     &zero_allowed,  json!({"minReplicas": 3}), scaled_to_zero(), 0, 0,  "3 because ",                               "ScaledToZero=True , AbleToScale=True ReadyForNewScale, ScalingLimited=True TooFewReplicas"),
        ("with a behavior",           &zero_allowed,  json!({"minReplicas": 3, "behavior": {}}), scaled_to_zero(), 0, 0, "3 because Current number of replicas below Spec.MinReplicas", "ScaledToZero=True , AbleToScale=True ReadyForNewScale, ScalingLimited=False DesiredWithinRange"),
        // Upstream: the same for an earlier recommendation.
        ("an earlier recommendation",   &settings(), json!({}),            json!({"currentReplicas": 7}), 3, 3, "6 because ",                  "AbleToScale=True ScaleDownStabilized, ScalingLimited=True ScaleUpLimit"),
    ];
    for (case, settings, spec, status, current, recommended, want, expected) in table {
        let hpa = hpa(spec, status);
        let scaling =
            Scaling { hpa: &hpa, current, scaled_to_zero: false, left_zero: false, settings, now: at(0) };
        let mut report = Report::new(&hpa, at(0));
        let mut history = History::default();
        history.begin(current.max(hpa.status.current_replicas), at(-1));
        let recommendation =
            Recommendation { replicas: recommended, metric: "m".to_owned(), unchanged: None };
        let (got, _) = rescale(&scaling, &recommendation, &mut history, &mut report);
        let got = got.map(|got| format!("{} because {}", got.replicas, got.reason)).unwrap_or_default();
        assert_eq!(got, want, "{case}");
        assert_eq!(conditions(&report), expected, "{case}");
    }
}

#[test]
fn a_rescale_to_zero_by_the_autoscaler_is_a_condition() {
    let zero_allowed = Settings { scale_to_zero: true, ..settings() };
    let zero_forbidden = settings();
    let zero = json!({"minReplicas": 0, "metrics": external()});
    #[rustfmt::skip]
    let table = [
        // case                        settings   spec                       from to  said
        ("to zero",                    &zero_allowed,   zero.clone(),              3,   0,  "ScaledToZero=True ScaledToZero, AbleToScale=True SucceededRescale"),
        ("up",                         &zero_allowed,   zero.clone(),              3,   4,  "ScaledToZero=False NotScaledToZero, AbleToScale=True SucceededRescale"),
        ("with CPU metrics only",      &zero_allowed,   json!({"minReplicas": 0}), 3,   0,  "ScaledToZero=False NotScaledToZero, AbleToScale=True SucceededRescale"),
        ("with the gate off",          &zero_forbidden,  zero.clone(),              3,   2,  "AbleToScale=True SucceededRescale"),
    ];
    for (case, settings, spec, from, to, want) in table {
        let hpa = hpa(spec, scaled_to_zero());
        let scaling = Scaling {
            hpa: &hpa,
            current: from,
            scaled_to_zero: false,
            left_zero: false,
            settings,
            now: at(0),
        };
        let (mut report, mut history) = (Report::new(&hpa, at(0)), History::default());
        let rescale = Rescale { replicas: to, reason: "r".to_owned() };
        rescaled(&scaling, &rescale, &mut history, &mut report);
        assert_eq!(conditions(&report), want, "{case}");
        let changes = (history.added, history.removed);
        assert_eq!(changes, (vec![], vec![]), "{case}: without a behavior no change is remembered");
    }
}

#[test]
fn an_equal_status_is_not_new() {
    let known = json!({"currentReplicas": 3, "desiredReplicas": 3, "currentMetrics": null, "conditions": [
        {"type": "AbleToScale", "status": "True", "reason": "SucceededGetScale",
         "message": "the HPA controller was able to get the target's current scale",
         "lastTransitionTime": super::time(-60)},
    ]});
    let hpa = hpa(json!({}), known);
    let mut report = Report::new(&hpa, at(0));
    report.scale_known();
    assert!(!is_new(&hpa.status, &report.unchanged(&hpa)));
    assert!(!is_new(&hpa.status, &report.status(&hpa, 3, Desired::AsIs, None)));
    assert!(!is_new(&hpa.status, &report.status(&hpa, 3, Desired::Unknown, Some(vec![]))));
    assert!(is_new(&hpa.status, &report.status(&hpa, 4, Desired::AsIs, None)));
    assert!(is_new(&hpa.status, &report.status(&hpa, 3, Desired::Set(3), None)));
    assert!(is_new(&hpa.status, &report.status(&hpa, 3, Desired::AsIs, Some(vec![MetricStatus::default()]))));
    report.scale_unknown("gone");
    let status = report.unchanged(&hpa);
    assert_eq!(status.conditions[0].last_transition_time, Some(at(0)));
    assert_eq!(
        status.conditions[0].message,
        "the HPA controller was unable to get the target's current scale: gone"
    );
}
