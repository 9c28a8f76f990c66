use std::sync::Arc;

use flyball_api::pod::Pod;
use serde_json::json;

use super::{pods, samples, scope, time};
use crate::horizontal::census::{Census, requests};

#[test]
fn pods_count_by_what_their_measures_are_worth() {
    #[rustfmt::skip]
    let table = [
        // case                                          cpu    pods                 measures     ready unready missing measures that count
        ("all are measured",                             true,  "a b",               "a=1 b=2",   "2 [] [] a b"),
        ("one is not",                                   true,  "a b",               "a=1",       "1 [] [b] a"),
        ("those that go or have failed are ignored",     true,  "a b:going c:failed", "a=1 b=2 c=3", "1 [] [] a"),
        ("those that have ended well are not",           true,  "a b:done",          "a=1 b=2",   "2 [] [] a b"),
        ("pending ones have not begun",                  true,  "a b:pending",       "a=1 b=2",   "1 [b] [] a"),
        ("young ones that are not ready",                true,  "a b:young,unready", "a=1 b=2",   "1 [b] [] a"),
        ("young ones measured since they are ready",     true,  "a b:young",         "a=1 b=2",   "2 [] [] a b"),
        ("old ones that were never ready",               true,  "a b:never-ready",   "a=1 b=2",   "1 [b] [] a"),
        ("old ones that are unready now",                true,  "a b:unready",       "a=1 b=2",   "2 [] [] a b"),
        ("without a condition or a start",               true,  "a b:bare c:unstarted", "a=1 b=2 c=3", "1 [b c] [] a"),
        ("only CPU needs warming up",                    false, "a b:never-ready c:bare", "a=1 b=2 c=3", "3 [] [] a b c"),
        ("measures of strangers stay",                   true,  "a",                 "a=1 z=9",   "1 [] [] a z"),
        ("nothing is left",                              true,  "a:pending",         "a=1",       "did not receive metrics for targeted pods (pods might be unready)"),
        ("nothing is there",                             true,  "",                  "a=1",       "no pods returned by selector while calculating replica count"),
    ];
    for (case, is_cpu, words, measures, want) in table {
        let pods = pods(words);
        let mut samples = samples(measures);
        let got = match Census::take(&scope(&pods, 1, is_cpu), &mut samples) {
            Err(error) => error,
            Ok(Census { ready, unready, missing }) => {
                let left: Vec<_> = samples.keys().map(|name| name.as_str()).collect();
                format!("{ready} [{}] [{}] {}", unready.join(" "), missing.join(" "), left.join(" "))
            }
        };
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn a_measure_counts_once_a_window_has_passed_since_the_pod_became_ready() {
    #[rustfmt::skip]
    let table = [
        // ready since  counts (measured 10 s ago, over 30 s)
        (-50,           true),
        (-40,           true),
        (-39,           false),
    ];
    for (since, counts) in table {
        let mut object = json!({
            "metadata": {"name": "a"},
            "status": {"phase": "Running", "startTime": time(-60), "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": time(since)},
            ]},
        });
        object["spec"] = json!({});
        let pods = vec![Arc::new(serde_json::from_value::<Pod>(object).unwrap())];
        let census = Census::take(&scope(&pods, 1, true), &mut samples("a=1 z=1")).unwrap();
        assert_eq!(census.ready == 1, counts, "ready since {since}");
    }
}

#[test]
fn requests_are_those_of_the_container_the_pod_or_all_that_last() {
    let pod = |spec: serde_json::Value| -> Vec<Arc<Pod>> {
        vec![Arc::new(serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap())]
    };
    let asks = |amount: &str| json!({"requests": {"cpu": amount}});
    let two = json!({
        "containers": [{"name": "a", "resources": asks("1")}, {"name": "b", "resources": asks("200m")}],
        "initContainers": [
            {"name": "first", "resources": asks("5")},
            {"name": "side", "restartPolicy": "Always", "resources": asks("100m")},
        ],
    });
    let mut whole = two.clone();
    whole["resources"] = asks("2");
    let mut memory = two.clone();
    memory["resources"] = json!({"requests": {"memory": "1Gi"}});
    let bare = json!({"containers": [{"name": "a", "resources": asks("1")}, {"name": "b"}]});
    #[rustfmt::skip]
    let table = [
        // case                                 spec     container      pod level  want
        ("all, with sidecars",                  &two,    None,          true,      "1300"),
        ("one container",                       &two,    Some("b"),     true,      "200"),
        ("a sidecar",                           &two,    Some("side"),  true,      "100"),
        ("no init container",                   &two,    Some("first"), true,      "container first not found in Pod p"),
        ("the pod as a whole",                  &whole,  None,          true,      "2000"),
        ("not if the gate is off",              &whole,  None,          false,     "1300"),
        ("nor for one container",               &whole,  Some("a"),     true,      "1000"),
        ("what the pod does not say is the most that containers need at once", &memory, None,          true,      "5000"),
        ("one says nothing",                    &bare,   None,          true,      "missing request for cpu in container b of Pod p"),
        ("which does not matter for another",   &bare,   Some("a"),     true,      "1000"),
    ];
    for (case, spec, container, pod_level, want) in table {
        let got = match requests(&pod(spec.clone()), "cpu", container, pod_level) {
            Ok(found) => found["p"].to_string(),
            Err(error) => error,
        };
        assert_eq!(got, want, "{case}");
    }
    let error = requests(&pod(whole), "memory", None, true).unwrap_err();
    assert_eq!(error, "missing pod-level request for memory in Pod p");
}
