use flyball_api::{ResourceType, Timestamp};
use serde_json::{Value, json};

use super::{at, hpa, pods, samples, settings};
use crate::horizontal::after::after;
use crate::horizontal::decision::{Metrics, Observations, ScaleError, SelectorError, View, decide};
use crate::horizontal::history::{History, Past};
use crate::horizontal::plan::plan;
use crate::horizontal::proposal::Measured;
use crate::horizontal::scale_client::Scale;

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
    (plan(&view, &decision).to_string(), after(&view, &decision, failure).plan.to_string())
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
