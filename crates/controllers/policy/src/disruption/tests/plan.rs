use std::sync::Arc;
use std::time::Duration;

use flyball_client::{ApiStatus, Error, Verb};
use flyball_runtime::Retry;
use flyball_runtime::plan::Failure;
use serde_json::json;

use super::{budget, pods, time, view};
use crate::disruption::invariants::{check, written};
use crate::disruption::plan::{Problem, View, after_failure, plan};

fn planned(view: &View<'_>) -> String {
    let plan = plan(view);
    check(view, &plan).unwrap();
    plan.to_string()
}

#[test]
fn the_plan_writes_the_status_and_reports_pods() {
    let unmanaged = "event Warning UnmanagedPods: Pods selected by this PodDisruptionBudget (selector: \
        &LabelSelector{MatchLabels:map[string]string{app: x,},MatchExpressions:[]LabelSelectorRequirement{},}) were found \
        to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined \
        behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.";
    let status = |text: &str| format!("update PodDisruptionBudget/status ns/budget: {text}");
    let (one, half) = (json!({"minAvailable": 1}), json!({"minAvailable": "50%"}));
    let late = "event Warning NotDeleted: Pod was expected by PDB ns/ns to be deleted but it wasn't (Pod a)";
    #[rustfmt::skip]
    let table = [
        // case                  spec   pods                 evicted           plan
        ("one to spare",         &one,  "a:ready b:ready",   json!({}),        status("2 healthy, 1 required: 1 disruptions allowed")),
        ("none to spare",        &one,  "a:ready b",         json!({}),
            status("1 healthy, 1 required: 0 disruptions allowed") + "\nwaiting for Pod/ns/b to become ready"),
        ("no pods",              &one,  "",                  json!({}),
            "event Normal NoPods: No matching pods found\n".to_owned() + &status("0 healthy, 1 required: 0 disruptions allowed")),
        ("no controller",        &half, "a:ready b:ready,of-x", json!({}),
            unmanaged.to_owned() + "\n" + &status("2 healthy, 2 required: 0 disruptions allowed")),
        ("evicted",              &one,  "a:ready b:ready",   json!({"a": time(0)}),
            status("1 healthy, 1 required: 0 disruptions allowed")
                + "\nagain after 110s\nwaiting for Pod/ns/a to be deleted after its eviction"),
        ("evicted long ago",     &one,  "a:ready b:ready",   json!({"a": time(-200)}),
            late.to_owned() + "\n" + &status("2 healthy, 1 required: 1 disruptions allowed")),
    ];
    for (case, spec, words, evicted, want) in table {
        let (pods, budget) = (pods(words), budget(spec.clone(), json!({"disruptedPods": evicted})));
        assert_eq!(planned(&View { scale: Ok(4), ..view(&budget, &pods, 10) }), want, "{case}");
    }
}

#[test]
fn a_status_that_cannot_be_computed_allows_no_disruption() {
    let pods = pods("a:ready,of-x");
    let refused = |problem: &str| {
        format!(
            "update PodDisruptionBudget/status ns/budget: no disruption is allowed, as the status cannot be computed: {problem}"
        )
    };
    let failed = |problem: &str| {
        let event =
            "event Warning CalculateExpectedPodCountFailed: Failed to calculate the number of expected pods";
        format!("{event}: {problem}\n{}", refused(problem))
    };
    let again =
        "\nagain after 3s\nwaiting for 2026-01-01T00:00:03Z, when the scale of the owners is read again";
    let scale = |again_after| Problem::Scale { message: "no scale".into(), again_after };
    let selector = Problem::Selector("bad".into());
    let invalid = "event Warning NoPods: Failed to get pods: bad\n".to_owned() + &refused("bad");
    #[rustfmt::skip]
    let table = [
        ("invalid selector",    selector,                           invalid),
        ("no scale",            scale(None),                        failed("no scale")),
        ("no scale for now",    scale(Some(Duration::from_secs(3))), failed("no scale") + again),
    ];
    let budget = budget(json!({"maxUnavailable": 1}), json!({"disruptionsAllowed": 4}));
    for (case, problem, want) in table {
        assert_eq!(planned(&View { scale: Err(&problem), ..view(&budget, &pods, 0) }), want, "{case}");
    }
    let budget = super::budget(json!({"minAvailable": "some"}), json!({}));
    let text = planned(&view(&budget, &pods, 0));
    assert!(text.starts_with("event Warning CalculateExpectedPodCountFailed"), "{text}");
    assert!(text.contains("some"), "{text}");
}

#[test]
fn a_new_budget_without_pods_waits_for_the_cache() {
    let new = budget(json!({"minAvailable": 1}), json!({}));
    let known = budget(json!({"minAvailable": 1}), json!({"observedGeneration": 3}));
    let (none, some) = (pods(""), pods("a:ready"));
    #[rustfmt::skip]
    let table = [
        // case                                   budget  pods   behind  waited  unseen  waits
        ("behind",                                &new,   &none, true,   false,  false,  Some("again after 20ms")),
        ("up to date",                            &new,   &none, false,  false,  false,  None),
        ("the server has none, either",           &new,   &none, true,   true,   false,  None),
        ("the server has some",                   &new,   &none, true,   true,   true,   Some("again after 200ms")),
        ("pods are there",                        &new,   &some, true,   false,  false,  None),
        ("not new",                               &known, &none, true,   false,  false,  None),
    ];
    for (case, budget, pods, is_cache_behind, has_waited, has_unseen_pods, waits) in table {
        let text = planned(&View { is_cache_behind, has_waited, has_unseen_pods, ..view(budget, pods, 0) });
        assert_eq!(text.starts_with("again after").then_some(text.as_str()), waits, "{case}: {text}");
    }
}

#[test]
fn pods_that_were_created_during_the_delay_do_not_count_as_matching() {
    let mut budget = budget(json!({"minAvailable": 1}), json!({}));
    budget.metadata.resource_version = flyball_api::ResourceVersion(5);
    let mut pods = pods("a:ready");
    Arc::make_mut(&mut pods[0]).metadata.resource_version = flyball_api::ResourceVersion(6);
    for (has_waited, is_reported) in [(true, true), (false, false)] {
        let text = planned(&View { has_waited, ..view(&budget, &pods, 0) });
        assert_eq!(text.contains("No matching pods found"), is_reported, "{text}");
    }
}

#[test]
fn a_refused_status_allows_no_disruption_unless_it_is_retried_anyway() {
    let (budget, pods) =
        (budget(json!({"minAvailable": 0}), json!({"disruptionsAllowed": 1})), pods("a:ready"));
    let failed = |error: Error| Failure {
        tag: Some(()),
        verb: Some(Verb::Update),
        doing: String::new(),
        message: String::new(),
        error: Some(error),
        retry: Retry::Backoff,
        is_expected: false,
    };
    let status = |code: u16, reason: &str| {
        let status = ApiStatus { code, reason: reason.into(), message: "no".into(), ..ApiStatus::default() };
        Error::Status(Box::new(status))
    };
    let table = [
        ("refused", status(403, "Forbidden"), true),
        ("conflict", status(409, "Conflict"), false),
        ("no answer", status(504, "Timeout"), false),
    ];
    let view = view(&budget, &pods, 0);
    for (case, error, writes) in table {
        let write = after_failure(&view, &failed(error));
        assert_eq!(write.is_some(), writes, "{case}");
    }
    let problem = Problem::Selector("bad".into());
    let unknown = View { scale: Err(&problem), ..view };
    assert!(written(&plan(&unknown)).is_some_and(|status| status.disruptions_allowed == 0));
    assert!(
        after_failure(&unknown, &failed(status(403, "Forbidden"))).is_none(),
        "the write was the refusal itself"
    );
}
