use flyball_api::horizontal_pod_autoscaler::MetricStatus;
use serde_json::{Value, json};

use super::{at, hpa, settings};
use crate::horizontal::history::History;
use crate::horizontal::metric::Unusable;
use crate::horizontal::plan::{Course, Settings, Step, View, course, decide, taken, weigh};
use crate::horizontal::proposal::Proposal;
use crate::horizontal::report::{Desired, Report, is_news};

fn external() -> Value {
    json!([{"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "5"}}}])
}

fn went_to_zero() -> Value {
    json!({"conditions": [{"type": "ScaledToZero", "status": "True"}]})
}

#[test]
fn the_present_number_tells_whether_to_measure() {
    let may_go = Settings { scale_to_zero: true, ..settings() };
    let may_not = settings();
    let cpu = json!({});
    let from_zero = json!({"minReplicas": 0, "metrics": external()});
    let raised = json!({"minReplicas": 2});
    #[rustfmt::skip]
    let table = [
        // case                                       settings  spec        status           current  want
        ("within bounds",                             &may_not, &cpu,       json!({}),       5,  Course::Measure),
        ("at the bounds",                             &may_not, &cpu,       json!({}),       10, Course::Measure),
        ("too many",                                  &may_not, &cpu,       json!({}),       11, Course::Into(10, "Current number of replicas above Spec.MaxReplicas")),
        ("too few",                                   &may_not, &raised,    json!({}),       1,  Course::Into(2, "Current number of replicas below Spec.MinReplicas")),
        ("switched off",                              &may_not, &cpu,       json!({}),       0,  Course::Off),
        ("switched off by somebody, though it may go", &may_go, &from_zero, json!({}),       0,  Course::Off),
        ("gone to zero by itself",                    &may_go,  &from_zero, went_to_zero(),  0,  Course::Measure),
        ("the gate is off by now",                    &may_not, &from_zero, went_to_zero(),  0,  Course::Off),
        ("nothing can be measured without pods",      &may_go,  &json!({"minReplicas": 0}), went_to_zero(), 0, Course::Off),
        ("but the least was raised",                  &may_go,  &raised,    went_to_zero(),  0,  Course::Measure),
    ];
    for (case, settings, spec, status, current, want) in table {
        let hpa = hpa(spec.clone(), status);
        let view = View { hpa: &hpa, current, settings, now: at(0) };
        assert_eq!(course(&view), want, "{case}");
    }
}

fn said(report: &Report) -> String {
    let status = report.unchanged(&hpa(json!({}), json!({})));
    let one = |c: &flyball_api::Condition| format!("{}={} {}", c.type_, c.status, c.reason);
    status.conditions.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_most_counts_and_nothing_is_taken_away_on_half_the_evidence() {
    let ok = |replicas: i32, name: &str| {
        Ok(Proposal {
            replicas,
            name: name.to_owned(),
            status: MetricStatus { type_: "Pods".into(), ..MetricStatus::default() },
        })
    };
    let bad = |told: &str| {
        Err(Unusable {
            reason: "FailedGetPodsMetric",
            problem: format!("no {told}"),
            told: told.to_owned(),
            is_spec: false,
        })
    };
    let hpa = hpa(json!({}), json!({}));
    let settings = settings();
    let view = View { hpa: &hpa, current: 5, settings: &settings, now: at(0) };
    #[rustfmt::skip]
    let table = [
        // case                                proposals                             recommended     shown     said
        ("one",                                vec![ok(7, "a")],                     "7 by a",       "Pods",   "ScalingActive=True ValidMetricFound"),
        ("the most",                           vec![ok(3, "a"), ok(7, "b"), ok(7, "c")], "7 by b",   "Pods Pods Pods", "ScalingActive=True ValidMetricFound"),
        ("all of them below",                  vec![ok(2, "a"), ok(3, "b")],         "3 by b",       "Pods Pods", "ScalingActive=True ValidMetricFound"),
        ("nothing at all",                     vec![ok(0, "a")],                     "0 by a",       "Pods",   "ScalingActive=True ValidMetricFound"),
        ("half, upwards",                      vec![bad("x"), ok(7, "b")],           "7 by b; invalid metrics (1 invalid out of 2), first error is: x", " Pods", "ScalingActive=True ValidMetricFound"),
        ("half, staying",                      vec![ok(5, "a"), bad("x")],           "5 by a; invalid metrics (1 invalid out of 2), first error is: x", "Pods ", "ScalingActive=True ValidMetricFound"),
        ("half, downwards",                    vec![ok(4, "a"), bad("x"), bad("y")], "; invalid metrics (2 invalid out of 3), first error is: x", "Pods  ", "ScalingActive=False FailedGetPodsMetric"),
        ("none",                               vec![bad("x")],                       "; invalid metrics (1 invalid out of 1), first error is: x", "", "ScalingActive=False FailedGetPodsMetric"),
    ];
    for (case, proposals, want, shown, conditions) in table {
        let failures = proposals.iter().filter(|proposal| proposal.is_err()).count();
        let mut report = Report::new(&hpa, at(0));
        let weighed = weigh(&view, proposals, &mut report);
        let recommended = weighed.recommended.map(|(n, by)| format!("{n} by {by}")).unwrap_or_default();
        let problem = weighed.problem.map(|problem| format!("; {problem}")).unwrap_or_default();
        assert_eq!(format!("{recommended}{problem}"), want, "{case}");
        let types: Vec<_> = weighed.shown.unwrap().iter().map(|m| m.type_.to_string()).collect();
        assert_eq!(types.join(" "), shown, "{case}");
        assert_eq!(said(&report), conditions, "{case}");
        assert_eq!(report.events.len(), failures, "{case}: an event for each that failed");
    }
}

#[test]
fn a_step_says_why_it_is_taken() {
    let may_go = Settings { scale_to_zero: true, ..settings() };
    let none = Settings { downscale_window: jiff::SignedDuration::ZERO, ..settings() };
    #[rustfmt::skip]
    let table = [
        // case                        settings  spec                     status          current recommended want                                          said
        ("up",                         &none,    json!({}),               json!({}),      3,  5,  "5 because m above target",                  "AbleToScale=True ReadyForNewScale, ScalingLimited=False DesiredWithinRange"),
        ("down",                       &none,    json!({}),               json!({}),      3,  2,  "2 because All metrics below target",        "AbleToScale=True ReadyForNewScale, ScalingLimited=False DesiredWithinRange"),
        ("down to the least",          &none,    json!({"minReplicas": 2}), json!({}),    3,  0,  "2 because All metrics below target",        "AbleToScale=True ReadyForNewScale, ScalingLimited=True TooFewReplicas"),
        ("at the least",               &none,    json!({"minReplicas": 2}), json!({}),    2,  1,  "",                                          "AbleToScale=True ReadyForNewScale, ScalingLimited=True TooFewReplicas"),
        ("up to the most",             &none,    json!({"maxReplicas": 4}), json!({}),    3,  9,  "4 because m above target",                  "AbleToScale=True ReadyForNewScale, ScalingLimited=True TooManyReplicas"),
        ("too fast",                   &none,    json!({"maxReplicas": 99}), json!({}),   3,  90, "6 because m above target",                  "AbleToScale=True ReadyForNewScale, ScalingLimited=True ScaleUpLimit"),
        ("nowhere",                    &none,    json!({}),               json!({}),      3,  3,  "",                                          "AbleToScale=True ReadyForNewScale, ScalingLimited=False DesiredWithinRange"),
        ("less than nothing",          &none,    json!({}),               json!({}),      3,  -5, "1 because All metrics below target",        "AbleToScale=True ReadyForNewScale, ScalingLimited=True TooFewReplicas"),
        ("back from zero",             &may_go,  json!({"minReplicas": 0, "metrics": external()}), went_to_zero(), 0, 2, "2 because m above target", "ScaledToZero=True , AbleToScale=True ReadyForNewScale, ScalingLimited=False DesiredWithinRange"),
        // Upstream: the bounds have brought it there already, and have no name for it.
        ("the least was raised",       &may_go,  json!({"minReplicas": 3}), went_to_zero(), 0, 0,  "3 because ",                               "ScaledToZero=True , AbleToScale=True ReadyForNewScale, ScalingLimited=True TooFewReplicas"),
        ("with a behaviour",           &may_go,  json!({"minReplicas": 3, "behavior": {}}), went_to_zero(), 0, 0, "3 because Current number of replicas below Spec.MinReplicas", "ScaledToZero=True , AbleToScale=True ReadyForNewScale, ScalingLimited=False DesiredWithinRange"),
        // Upstream: so does what was recommended before.
        ("what was recommended holds", &settings(), json!({}),            json!({"currentReplicas": 7}), 3, 3, "6 because ",                  "AbleToScale=True ScaleDownStabilized, ScalingLimited=True ScaleUpLimit"),
    ];
    for (case, settings, spec, status, current, recommended, want, conditions) in table {
        let hpa = hpa(spec, status);
        let view = View { hpa: &hpa, current, settings, now: at(0) };
        let mut report = Report::new(&hpa, at(0));
        let mut history = History::default();
        history.begin(current.max(hpa.status.current_replicas), at(-1));
        let step = decide(&view, (recommended, "m"), &mut history, &mut report);
        let got = step.map(|step| format!("{} because {}", step.replicas, step.reason)).unwrap_or_default();
        assert_eq!(got, want, "{case}");
        assert_eq!(said(&report), conditions, "{case}");
    }
}

#[test]
fn only_a_step_to_zero_by_the_autoscaler_is_one_it_returns_from() {
    let may_go = Settings { scale_to_zero: true, ..settings() };
    let may_not = settings();
    let zero = json!({"minReplicas": 0, "metrics": external()});
    #[rustfmt::skip]
    let table = [
        // case                        settings   spec                       from to  said
        ("to zero",                    &may_go,   zero.clone(),              3,   0,  "ScaledToZero=True ScaledToZero, AbleToScale=True SucceededRescale"),
        ("up",                         &may_go,   zero.clone(),              3,   4,  "ScaledToZero=False NotScaledToZero, AbleToScale=True SucceededRescale"),
        ("on CPU alone",               &may_go,   json!({"minReplicas": 0}), 3,   0,  "ScaledToZero=False NotScaledToZero, AbleToScale=True SucceededRescale"),
        ("with the gate off",          &may_not,  zero.clone(),              3,   2,  "AbleToScale=True SucceededRescale"),
    ];
    for (case, settings, spec, from, to, want) in table {
        let hpa = hpa(spec, went_to_zero());
        let view = View { hpa: &hpa, current: from, settings, now: at(0) };
        let (mut report, mut history) = (Report::new(&hpa, at(0)), History::default());
        let step = Step { replicas: to, reason: "r".to_owned() };
        taken(&view, &step, &mut history, &mut report);
        assert_eq!(said(&report), want, "{case}");
        assert_eq!(report.events[0].message, format!("New size: {to}; reason: r"));
        assert_eq!(history, History::default(), "{case}: without a behaviour nothing is remembered");
    }
}

#[test]
fn a_status_that_says_nothing_new_is_no_news() {
    let known = json!({"currentReplicas": 3, "desiredReplicas": 3, "currentMetrics": null, "conditions": [
        {"type": "AbleToScale", "status": "True", "reason": "SucceededGetScale",
         "message": "the HPA controller was able to get the target's current scale",
         "lastTransitionTime": super::time(-60)},
    ]});
    let hpa = hpa(json!({}), known);
    let mut report = Report::new(&hpa, at(0));
    report.scale_known();
    assert!(!is_news(&hpa.status, &report.unchanged(&hpa)));
    assert!(!is_news(&hpa.status, &report.status(&hpa, 3, Desired::AsIs, None)));
    assert!(!is_news(&hpa.status, &report.status(&hpa, 3, Desired::Unknown, Some(vec![]))));
    assert!(is_news(&hpa.status, &report.status(&hpa, 4, Desired::AsIs, None)));
    assert!(is_news(&hpa.status, &report.status(&hpa, 3, Desired::Set(3), None)));
    assert!(is_news(
        &hpa.status,
        &report.status(&hpa, 3, Desired::AsIs, Some(vec![MetricStatus::default()]))
    ));
    report.scale_unknown("gone");
    let status = report.unchanged(&hpa);
    assert_eq!(status.conditions[0].last_transition_time, Some(at(0)));
    assert_eq!(
        status.conditions[0].message,
        "the HPA controller was unable to get the target's current scale: gone"
    );
}
