use flyball_api::ResourceVersion;
use serde_json::{Map, Value, json};

use super::{at, budget, pod, pods, time, view};
use crate::disruption::census::{count, is_newer};

#[test]
fn ready_pods_are_healthy_unless_they_were_evicted() {
    #[rustfmt::skip]
    let table = [
        // case                                 pods                      evicted at    now  healthy awaited overdue recheck
        ("ready ones are healthy",              "a:ready b:unready c",    "",             0, 1, "",    "",   None),
        ("deleted ones are not",                "a:ready,going b:ready",  "",             0, 1, "",    "",   None),
        ("the phase does not matter",           "a:ready,done",           "",             0, 1, "",    "",   None),
        ("evicted ones are not",                "a:ready b:ready",        "a=0",          1, 1, "a",   "",   Some(120)),
        ("for two minutes",                     "a:ready b:ready",        "a=0",        119, 1, "a",   "",   Some(120)),
        ("then they are",                       "a:ready b:ready",        "a=0",        120, 2, "",    "a",  None),
        ("each by its own time",                "a:ready b:ready",        "a=0 b=60",   130, 1, "b",   "a",  Some(180)),
        ("the first that is due comes first",   "a:ready b:ready",        "a=60 b=0",    70, 0, "a b", "",   Some(120)),
        ("deleted ones are not disrupted",      "a:ready,going b:ready",  "a=0",          1, 1, "",    "",   None),
        ("nor are those that are gone",         "b:ready",                "a=0",          1, 1, "",    "",   None),
        ("unready pods are never healthy",      "a:unready",              "a=0",        200, 0, "",    "a",  None),
        ("clocks may differ",                   "a:ready",                "a=50",         0, 0, "a",   "",   Some(170)),
    ];
    for (case, words, evicted, now, healthy, awaited, overdue, recheck) in table {
        let evicted: Map<String, Value> = evicted
            .split_whitespace()
            .map(|word| word.split_once('=').unwrap())
            .map(|(name, second)| (name.to_owned(), json!(time(second.parse().unwrap()))))
            .collect();
        let (pods, budget) =
            (pods(words), budget(json!({"minAvailable": 1}), json!({"disruptedPods": evicted})));
        let census = count(&view(&budget, &pods, now));
        let names = census.disrupted.keys().map(|name| name.as_str()).collect::<Vec<_>>().join(" ");
        let late = census.overdue.iter().map(|pod| &*pod.metadata.name).collect::<Vec<_>>().join(" ");
        let got = (census.healthy, names.as_str(), late.as_str(), census.recheck);
        assert_eq!(got, (healthy, awaited, overdue, recheck.map(at)), "{case}");
    }
}

#[test]
fn a_pod_is_newer_than_a_budget_if_version_and_timestamp_are() {
    #[rustfmt::skip]
    let table = [
        // case                                      version  second  after
        ("later by both",                                 6,       1, true),
        ("in the same second",                            6,       0, true),
        ("written before the budget",                     4,       0, false),
        ("made before it, and written again after it",    6,      -1, false),
    ];
    let mut budget = budget(json!({"minAvailable": 1}), json!({}));
    budget.metadata.resource_version = ResourceVersion(5);
    budget.metadata.creation_timestamp = Some(at(0));
    for (case, version, second, after) in table {
        let mut pod = pod("a");
        pod.metadata.resource_version = ResourceVersion(version);
        pod.metadata.creation_timestamp = Some(at(second));
        assert_eq!(is_newer(&pod, &budget), after, "{case}");
    }
}
