use flyball_api::horizontal_pod_autoscaler::HorizontalPodAutoscaler;
use flyball_api::{ResourceType, Timestamp, condition};
use flyball_runtime::{Effect, Plan};
use serde_json::{Value, json};

use super::{at, hpa, pods, samples, settings};
use crate::horizontal::after::{After, Failed, after};
use crate::horizontal::decision::{Metrics, Observations, ScaleError, SelectorError, Settings, View, decide};
use crate::horizontal::history::{History, Past};
use crate::horizontal::monitor::Action;
use crate::horizontal::plan::plan;
use crate::horizontal::proposal::Measured;
use crate::horizontal::scale_client::Scale;
use crate::horizontal::status::SCALED_TO_ZERO;

const CPU: &str = "cpu resource utilization (percentage of request)";

fn scale(replicas: i32) -> Scale {
    Scale {
        resource: ResourceType::new("apps", "v1", "deployments", "Deployment", true),
        replicas,
        status_replicas: replicas,
        selector: "app=x".into(),
        body: json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas}}),
    }
}

/// Three replicas, whose pods use this many thousandths of a CPU of the one that each requests; the target is 500.
fn at_usage(usage: i64) -> Observations {
    let samples = samples(&format!("a={usage} b={usage} c={usage}"));
    let metrics = Metrics::Read { pods: pods("a b c"), answers: vec![Ok(Measured::Samples(samples))] };
    Observations { scale: Ok(scale(3)), metrics }
}

/// A recommendation that was made at a time.
fn recommended(replicas: i32, at: Timestamp) -> History {
    History { recommended: vec![Past { replicas, at }], ..History::default() }
}

/// The plan, and what follows when rescaling fails with this error, or succeeds.
fn described(
    spec: Value,
    observed: &Observations,
    history: &History,
    failure: Option<&str>,
) -> (String, String) {
    let (hpa, settings) = (hpa(spec, json!({})), settings());
    let view = View { hpa: &hpa, observed, history, settings: &settings, now: at(0) };
    let decision = decide(&view);
    let failure = failure.filter(|_| decision.rescale.is_some());
    let failure = failure.map(|error| Failed { error: error.into(), is_outcome_unknown: false });
    (
        plan(&view, &decision).to_string(),
        Plan::of(after(&view, &decision, failure.as_ref()).effects).to_string(),
    )
}

const STATUS_FAILED: &str = "\n  else event Warning FailedUpdateStatus: <error>";

#[test]
fn a_workload_is_rescaled_and_the_status_follows_from_the_outcome() {
    let up = format!(
        "\
update Deployment/scale ns/web: {CPU} above target
  then event Normal SuccessfulRescale: New size: 6; reason: {CPU} above target
again after 15s
waiting for 2026-01-01T00:00:15Z, when the metrics are read again; {CPU} calls for 6 replicas"
    );
    let none = History::default();
    let (planned, after) = described(json!({}), &at_usage(900), &none, None);
    assert_eq!(planned, up);
    assert_eq!(
        after,
        format!("update HorizontalPodAutoscaler/status ns/hpa: 3 replicas, 6 wanted{STATUS_FAILED}")
    );
    let (planned, after) = described(json!({}), &at_usage(900), &none, Some("E"));
    assert_eq!(planned, up);
    let failed = format!("event Warning FailedRescale: New size: 6; reason: {CPU} above target; error: E");
    assert_eq!(
        after,
        format!(
            "{failed}\nupdate HorizontalPodAutoscaler/status ns/hpa: 3 replicas, 0 wanted{STATUS_FAILED}"
        )
    );
}

#[test]
fn waiting_explains_why_the_number_is_not_the_recommended_one() {
    let now = |replicas: i32, why: &str| {
        format!(
            "2026-01-01T00:00:15Z, when the metrics are read again; {CPU} calls for {replicas} replicas{why}"
        )
    };
    let policies =
        json!({"behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}}});
    let none = History::default();
    #[rustfmt::skip]
    let table = [
        // case           spec                         usage  history                   waiting
        ("at the target", json!({}),                   500,   none.clone(),             vec![now(3, "")]),
        ("tolerance",     json!({}),                   520,   none.clone(),             vec![now(3, ": its value is within the tolerance of its target")]),
        ("stabilization", json!({}),                   100,   recommended(6, at(-100)), vec![
            "2026-01-01T00:03:20Z, when the recommendation of 6 replicas leaves the stabilization window; 1 are recommended now".to_owned(), now(1, "")]),
        ("maxReplicas",   json!({"maxReplicas": 4}),   900,   none.clone(),             vec![
            "HorizontalPodAutoscaler/ns/hpa to allow more than 4 replicas".to_owned(), now(6, "")]),
        ("minReplicas",   json!({"minReplicas": 2}),   10,    recommended(1, at(-100)), vec![
            "HorizontalPodAutoscaler/ns/hpa to allow fewer than 2 replicas".to_owned(), now(1, "")]),
        ("policies",      policies,                    900,   none.clone(),             vec![
            "2026-01-01T00:00:15Z, when more than 4 replicas may be allowed by the scale-up rate".to_owned(), now(6, "")]),
    ];
    for (case, spec, usage, history, want) in table {
        let (planned, _) = described(spec, &at_usage(usage), &history, None);
        let waiting: Vec<_> = planned.lines().filter_map(|line| line.strip_prefix("waiting for ")).collect();
        assert_eq!(waiting, want, "{case}");
    }
}

#[test]
fn what_cannot_be_read_fails_with_an_event_and_a_status() {
    let unread = |scale| Observations { scale, metrics: Metrics::NotRead };
    let no_pods = |error| Observations { scale: Ok(scale(3)), metrics: Metrics::NoPods(error) };
    let gone = ScaleError { message: "gone".into(), error: "no scale: gone".into(), is_spec_error: false };
    let cpu = "failed to get cpu utilization: unable to get metrics for resource cpu: E";
    let unmeasured = Observations {
        scale: Ok(scale(3)),
        metrics: Metrics::Read { pods: pods("a b c"), answers: vec![Err("E".into())] },
    };
    let failed = "failed to compute desired number of replicas based on listed metrics for Deployment/ns/web";
    let invalid = format!(
        "invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: {cpu}"
    );
    #[rustfmt::skip]
    let table = [
        ("no scale",           unread(Err(gone)),                      "event Warning FailedGetScale: gone\nfail: no scale: gone".to_owned()),
        ("no selector",        no_pods(SelectorError::Missing),        format!("event Warning SelectorRequired: selector is required\nevent Warning FailedComputeMetricsReplicas: selector is required\nfail: {failed}: selector is required")),
        ("ambiguous selector", no_pods(SelectorError::Ambiguous("two".into())), format!("event Warning AmbiguousSelector: two\nevent Warning FailedComputeMetricsReplicas: two\nfail: {failed}: two")),
        ("invalid selector",   no_pods(SelectorError::Invalid("bad".into())),   format!("event Warning InvalidSelector: bad\nevent Warning FailedComputeMetricsReplicas: bad\nfail: {failed}: bad")),
        ("no metrics",         unmeasured,                             format!("event Warning FailedGetResourceMetric: {cpu}\nevent Warning FailedComputeMetricsReplicas: {invalid}\nfail: {failed}: {invalid}")),
        ("scaled to zero",     unread(Ok(scale(0))),                   String::new()),
        ("above the bounds",   unread(Ok(scale(12))),                  "\
update Deployment/scale ns/web: Current number of replicas above Spec.MaxReplicas
  then event Normal SuccessfulRescale: New size: 10; reason: Current number of replicas above Spec.MaxReplicas".to_owned()),
    ];
    for (case, observed, want) in table {
        let (planned, after) = described(json!({}), &observed, &History::default(), None);
        let lines: Vec<_> = planned.lines().take_while(|line| !line.starts_with("again after")).collect();
        assert_eq!(lines.join("\n"), want, "{case}");
        assert!(after.starts_with("update HorizontalPodAutoscaler/status ns/hpa"), "{case}: {after}");
    }
}

/// Autoscalers may scale to zero, and do so at once.
fn zero_allowed() -> Settings {
    Settings { scale_to_zero: true, downscale_window: jiff::SignedDuration::ZERO, ..settings() }
}

/// An autoscaler between 0 and 10 replicas, on an external metric.
fn down_to_zero(status: Value) -> HorizontalPodAutoscaler {
    let external = json!([{"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "5"}}}]);
    hpa(json!({"minReplicas": 0, "metrics": external}), status)
}

/// The number of replicas, and the value of the external metric in thousandths.
fn at_value(replicas: i32, value: i64) -> Observations {
    let pods = pods(if replicas > 0 { "a b c" } else { "" });
    let metrics = Metrics::Read { pods, answers: vec![Ok(Measured::Total(value))] };
    Observations { scale: Ok(scale(replicas)), metrics }
}

/// A status that could not be written does not make the zero a user's.
#[test]
fn an_autoscaler_remembers_that_it_asked_for_zero_until_the_status_says_so() {
    let says_so = json!({"conditions": [{"type": "ScaledToZero", "status": "True"}]});
    let none = recommended(3, at(-1));
    let asked = History { scaled_to_zero: Some("uid-hpa".into()), ..none.clone() };
    let former = History { scaled_to_zero: Some("uid-former".into()), ..none.clone() };
    #[rustfmt::skip]
    let table = [
        // case                              history  status            current  asks    remembers  says so
        ("it asks for zero",                 &none,   json!({}),        3,       Some(0), true,     false),
        ("the status was not written",       &asked,  json!({}),        0,       None,    true,     true),
        ("the status was written",           &asked,  says_so.clone(),  0,       None,    false,    true),
        ("the request had failed",           &asked,  json!({}),        3,       Some(0), true,     false),
        ("the zero is a user's",             &none,   json!({}),        0,       None,    false,    false),
        ("a former one of that name asked",  &former, json!({}),        0,       None,    false,    false),
    ];
    for (case, history, status, current, asks, remembers, says) in table {
        let (hpa, observed) = (down_to_zero(status), at_value(current, 0));
        let view = View { hpa: &hpa, observed: &observed, history, settings: &zero_allowed(), now: at(0) };
        let decision = decide(&view);
        assert_eq!(decision.rescale.as_ref().map(|rescale| rescale.replicas), asks, "{case}");
        assert_eq!(decision.history.scaled_to_zero.is_some(), remembers, "{case}");
        let status = decision.report.unchanged(&hpa);
        assert_eq!(condition::is_true(&status.conditions, SCALED_TO_ZERO), says, "{case}");
    }
}

/// A status that could not be written does not make a user's zero the autoscaler's.
#[test]
fn an_autoscaler_remembers_that_it_left_zero_until_the_status_says_so() {
    let said = json!({"conditions": [{"type": "ScaledToZero", "status": "True"}]});
    let none = recommended(3, at(-1));
    let left = History { left_zero: Some("uid-hpa".into()), ..none.clone() };
    let former = History { left_zero: Some("uid-former".into()), ..none.clone() };
    #[rustfmt::skip]
    let table = [
        // case                              history  status           current  value   asks     remembers  says zero
        ("it scales up",                     &none,   said.clone(),    0,       12_000, Some(3), true,      false),
        ("the status was not written",       &left,   said.clone(),    3,       5_000,  None,    true,      false),
        ("the status was written",           &left,   json!({}),       3,       5_000,  None,    false,     false),
        ("a user scales to zero meanwhile",  &left,   said.clone(),    0,       12_000, None,    true,      false),
        ("it scales to zero again",          &left,   said.clone(),    3,       0,      Some(0), false,     true),
        ("a former one of that name left",   &former, said.clone(),    0,       12_000, Some(3), true,      false),
    ];
    for (case, history, status, current, value, asks, remembers, says) in table {
        let (hpa, observed) = (down_to_zero(status), at_value(current, value));
        let view = View { hpa: &hpa, observed: &observed, history, settings: &zero_allowed(), now: at(0) };
        let decision = decide(&view);
        assert_eq!(decision.rescale.as_ref().map(|rescale| rescale.replicas), asks, "{case}");
        let after = after(&view, &decision, None);
        assert_eq!(after.history.left_zero.is_some(), remembers, "{case}");
        let written = after.effects.iter().find_map(|effect| match effect {
            Effect::Write(write) => write.body(),
            _ => None,
        });
        let says_now = written.map_or(condition::is_true(&hpa.status.conditions, SCALED_TO_ZERO), |body| {
            let all = body["status"]["conditions"].as_array().cloned().unwrap_or_default();
            all.iter().any(|one| one["type"] == "ScaledToZero" && one["status"] == "True")
        });
        assert_eq!(says_now, says, "{case}");
    }
}

/// Otherwise it would override a user who scales to zero before the next sync.
#[test]
fn a_failed_request_for_zero_and_one_that_is_undone_are_forgotten() {
    let none = recommended(3, at(-1));
    let asked = History { scaled_to_zero: Some("uid-hpa".into()), ..none.clone() };
    let failed = |is_outcome_unknown| Some(Failed { error: "E".into(), is_outcome_unknown });
    #[rustfmt::skip]
    let table = [
        // case                       history  current  value   failure         asks     remembers
        ("scaled to zero",            &none,   3,       0,      None,           0,       true),
        ("refused",                   &none,   3,       0,      failed(false),  0,       false),
        ("refused a second time",     &asked,  3,       0,      failed(false),  0,       false),
        ("maybe scaled to zero",      &none,   3,       0,      failed(true),   0,       true),
        ("scaled up again",           &asked,  0,       12_000, None,           3,       false),
        ("not scaled up again",       &asked,  0,       12_000, failed(false),  3,       true),
        ("maybe scaled up again",     &asked,  0,       12_000, failed(true),   3,       true),
    ];
    for (case, history, current, value, failure, asks, remembers) in table {
        let (hpa, observed) = (down_to_zero(json!({})), at_value(current, value));
        let view = View { hpa: &hpa, observed: &observed, history, settings: &zero_allowed(), now: at(0) };
        let decision = decide(&view);
        assert_eq!(decision.rescale.as_ref().map(|rescale| rescale.replicas), Some(asks), "{case}");
        let After { history, action, .. } = after(&view, &decision, failure.as_ref());
        assert_eq!(history.scaled_to_zero.is_some(), remembers, "{case}");
        let action_if_made = if asks > current { Action::Up } else { Action::Down };
        assert_eq!(action, if failure.is_none() { action_if_made } else { Action::None }, "{case}");
    }
}
