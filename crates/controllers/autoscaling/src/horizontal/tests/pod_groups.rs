use std::sync::Arc;

use flyball_api::pod::Pod;
use serde_json::json;

use super::{pods, samples, time, workload};
use crate::horizontal::pod_groups::{PodGroups, requests};

#[test]
fn pods_are_grouped_by_whether_their_samples_count() {
    #[rustfmt::skip]
    let table = [
        // case                                          cpu    pods                 samples      ready [unready] [missing] samples that count
        ("all have samples",                             true,  "a b",               "a=1 b=2",   "2 [] [] a b"),
        ("one has none",                                   true,  "a b",               "a=1",       "1 [] [b] a"),
        ("deleted and failed pods are ignored",          true,  "a b:deleting c:failed", "a=1 b=2 c=3", "1 [] [] a"),
        ("succeeded pods are not",                       true,  "a b:succeeded",     "a=1 b=2",   "2 [] [] a b"),
        ("pending pods are unready",                     true,  "a b:pending",       "a=1 b=2",   "1 [b] [] a"),
        ("young pods that are unready",                  true,  "a b:young,unready", "a=1 b=2",   "1 [b] [] a"),
        ("young pods with a sample since they are ready", true,  "a b:young",         "a=1 b=2",   "2 [] [] a b"),
        ("old pods that were never ready",               true,  "a b:never-ready",   "a=1 b=2",   "1 [b] [] a"),
        ("old pods that are unready now",                true,  "a b:unready",       "a=1 b=2",   "2 [] [] a b"),
        ("without a condition or a start time",          true,  "a b:no-condition c:no-start-time", "a=1 b=2 c=3", "1 [b c] [] a"),
        ("the warm-up is for CPU only",                  false, "a b:never-ready c:no-condition", "a=1 b=2 c=3", "3 [] [] a b c"),
        ("samples of other pods stay",                   true,  "a",                 "a=1 z=9",   "1 [] [] a z"),
        ("no sample is left",                            true,  "a:pending",         "a=1",       "did not receive metrics for targeted pods (pods might be unready)"),
        ("no pods",                                      true,  "",                  "a=1",       "no pods returned by selector while calculating replica count"),
    ];
    for (case, is_cpu, words, values, want) in table {
        let pods = pods(words);
        let mut samples = samples(values);
        let got = match PodGroups::new(&workload(&pods, 1, is_cpu), &mut samples) {
            Err(error) => error,
            Ok(PodGroups { ready, unready, missing }) => {
                let left: Vec<_> = samples.keys().map(|name| name.as_str()).collect();
                format!("{ready} [{}] [{}] {}", unready.join(" "), missing.join(" "), left.join(" "))
            }
        };
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn a_sample_counts_if_its_window_lies_after_the_time_the_pod_became_ready() {
    #[rustfmt::skip]
    let table = [
        // ready since  counts (taken 10 s ago, over 30 s)
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
        let groups = PodGroups::new(&workload(&pods, 1, true), &mut samples("a=1 z=1")).unwrap();
        assert_eq!(groups.ready == 1, counts, "ready since {since}");
    }
}

#[test]
fn requests_are_those_of_the_container_the_pod_or_all_long_running_containers() {
    let pod = |spec: serde_json::Value| -> Vec<Arc<Pod>> {
        vec![Arc::new(serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap())]
    };
    let cpu = |amount: &str| json!({"requests": {"cpu": amount}});
    let two = json!({
        "containers": [{"name": "a", "resources": cpu("1")}, {"name": "b", "resources": cpu("200m")}],
        "initContainers": [
            {"name": "first", "resources": cpu("5")},
            {"name": "side", "restartPolicy": "Always", "resources": cpu("100m")},
        ],
    });
    let mut whole = two.clone();
    whole["resources"] = cpu("2");
    let mut memory = two.clone();
    memory["resources"] = json!({"requests": {"memory": "1Gi"}});
    let bare = json!({"containers": [{"name": "a", "resources": cpu("1")}, {"name": "b"}]});
    #[rustfmt::skip]
    let table = [
        // case                                 spec     container      pod level  want
        ("all, with sidecars",                  &two,    None,          true,      "1300"),
        ("one container",                       &two,    Some("b"),     true,      "200"),
        ("a sidecar",                           &two,    Some("side"),  true,      "100"),
        ("an init container",                   &two,    Some("first"), true,      "container first not found in Pod p"),
        ("requests of the pod",                 &whole,  None,          true,      "2000"),
        ("not if the gate is off",              &whole,  None,          false,     "1300"),
        ("not for one container",               &whole,  Some("a"),     true,      "1000"),
        ("a resource that the pod does not set counts as the most its containers need at once", &memory, None,          true,      "5000"),
        ("one container has none",              &bare,   None,          true,      "missing request for cpu in container b of Pod p"),
        ("but another container is used",       &bare,   Some("a"),     true,      "1000"),
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
