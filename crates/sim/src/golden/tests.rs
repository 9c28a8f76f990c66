//! Tables for the pure parts: normalising, renumbering, comparing, merging, reporting, parsing scenarios.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::compare::{Counts, Difference, differences, merge};
use super::expected::Snapshot;
use super::normalise::Normaliser;
use super::renumber::renumber;
use super::report::explain;
use super::scenario::Scenario;
use super::suite::Corpus;

fn snapshot(objects: Value, events: Value, requests: Value) -> Snapshot {
    let map = |value: Value| -> BTreeMap<String, Value> { serde_json::from_value(value).unwrap() };
    let (objects, events, requests) = (map(objects), map(events), map(requests));
    Snapshot { label: "s".to_owned(), objects, events, requests, ..Snapshot::default() }
}

fn pod(name: &str, uid: &str, extra: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "generateName": "web-", "uid": uid, "namespace": "g1", "resourceVersion": "7"},
        "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "resources": {}}]}, "status": {},
    });
    for (key, value) in extra.as_object().unwrap() {
        pod[key] = value.clone();
    }
    pod
}

#[test]
fn placeholders_are_numbered_by_content_not_by_chance() {
    // The same two pods, with the random parts of their names swapped.
    let ready = json!({"status": {"podIPs": [{"ip": "10.88.0.2"}]}});
    let runs = [
        [pod("web-aaaaa", "u1", json!({})), pod("web-zzzzz", "u2", ready.clone())],
        [pod("web-aaaaa", "u2", ready), pod("web-zzzzz", "u1", json!({}))],
    ];
    let shown: Vec<BTreeSet<String>> = runs
        .iter()
        .map(|pods| {
            let mut names = Normaliser::new("g1");
            names.observe(pods);
            let show = |pod: &Value| {
                let name = names.text(pod["metadata"]["name"].as_str().unwrap());
                format!("{name} {}", names.object(pod))
            };
            pods.iter().map(show).collect()
        })
        .collect();
    assert_eq!(shown[0], shown[1]);
    assert!(shown[0].iter().any(|text| text.contains("<ip:web-<rand-")), "{shown:?}");
    assert!(shown[0].iter().all(|text| !text.contains("restartPolicy") && !text.contains("resourceVersion")));
}

#[test]
fn hashes_minutes_and_cluster_addresses_get_names() {
    let mut names = Normaliser::new("g1");
    names.observe(&[
        json!({"kind": "ReplicaSet", "metadata": {"name": "web-6d4f5", "uid": "r", "labels": {"pod-template-hash": "6d4f5"}}}),
        json!({"kind": "ControllerRevision", "revision": 1, "metadata": {"name": "db-77c9", "uid": "c"}}),
        json!({"kind": "Job", "metadata": {"name": "tick-29000001", "uid": "j", "ownerReferences": [
            {"kind": "CronJob", "name": "tick", "controller": true}]}}),
        json!({"kind": "Service", "metadata": {"name": "front", "uid": "s"}, "spec": {"clusterIPs": ["10.96.0.9", "fd00:96::9"]}}),
    ]);
    let text = names.text("web-6d4f5 db-77c9 tick-29000001 10.96.0.9 fd00:96::9 g1");
    // ControllerRevisions come after ReplicaSets in the order of kinds.
    assert_eq!(text, "web-<hash-1> db-<hash-2> tick-<minute-1> <clusterIP:front> <clusterIP6:front> <ns>");
}

#[test]
fn nothing_is_added_to_an_object() {
    for kind in
        ["ConfigMap", "Secret", "Service", "EndpointSlice", "Endpoints", "Node", "Pod", "CronJob", "Job"]
    {
        let bare = json!({"kind": kind, "metadata": {"name": "x"}, "spec": {}, "status": {}});
        let want = json!({"metadata": {}, "spec": {}, "status": {}});
        assert_eq!(Normaliser::new("g1").object(&bare), want, "{kind}");
    }
}

#[test]
fn equal_pods_are_interchangeable_between_snapshots() {
    let seen = |first: &str, second: &str| {
        snapshot(
            json!({
                format!("Pod/web-<rand-{first}>"): {"phase": "Running"},
                format!("Pod/web-<rand-{second}>"): {"phase": "Pending"},
                "Endpoints/web": {"subsets": [{"addresses": [{"pod": format!("web-<rand-{first}>")}]}]},
            }),
            json!({format!("Normal Killing Pod/web-<rand-{first}>"): 1, format!("Normal Killing Pod/web-<rand-{second}>"): 2}),
            json!({}),
        )
    };
    let renumbered = renumber(seen("3", "7"));
    assert_eq!(renumbered, renumber(seen("9", "1")));
    assert_eq!(renumbered.objects["Pod/web-<rand-1>"], json!({"phase": "Pending"}));
    assert_eq!(renumbered.events, BTreeMap::from([("Normal Killing Pod/web-<rand>".to_owned(), json!(3))]));
}

#[test]
fn only_what_must_be_exact_is_compared() {
    #[rustfmt::skip]
    let table = [
        // case                              wanted                    seen                      differences: relaxed, strict
        ("the same",                         json!({"k create pods 201": 2}), json!({"k create pods 201": 2}), 0, 0),
        ("creates are counted",              json!({"k create pods 201": 2}), json!({"k create pods 201": 3}), 1, 1),
        ("updates are not",                  json!({"k update pods/status 200": 2}), json!({"k update pods/status 200": 5}), 0, 1),
        ("but must be there",                json!({"k update pods/status 200": 2}), json!({}), 1, 1),
        ("and no others may be",             json!({}), json!({"k patch pods 200": 1}), 1, 1),
        ("failures do not count",            json!({}), json!({"k create pods 500": 4}), 0, 1),
        ("some is any count",                json!({"k create pods 201": "some"}), json!({"k create pods 201": 9}), 0, 0),
        ("but not none",                     json!({"k create pods 201": "some"}), json!({}), 1, 1),
        ("unstable may be anything",         json!({"k create pods 201": "<unstable>"}), json!({"k create pods 201": 9}), 0, 0),
        ("or nothing",                       json!({"k create pods 201": "<unstable>"}), json!({}), 0, 0),
    ];
    for (case, want, got, relaxed, strict) in table {
        let (want, got) = (snapshot(json!({}), json!({}), want), snapshot(json!({}), json!({}), got));
        let count =
            |counts| differences(std::slice::from_ref(&want), std::slice::from_ref(&got), counts).len();
        assert_eq!((count(Counts::Relaxed), count(Counts::Strict)), (relaxed, strict), "{case}");
    }
}

#[test]
fn objects_are_compared_to_the_last_field() {
    #[rustfmt::skip]
    let table = [
        (json!({"a": 1}),              json!({"a": 1}),            ""),
        (json!({"a": 1}),              json!({"a": 1.0}),          ""),
        (json!({"a": {"b": 1}}),       json!({"a": {"b": 2}}),     "s objects x a b"),
        (json!({"a": [1, 2]}),         json!({"a": [1, 3]}),       "s objects x a 1"),
        (json!({"a": [1, 2]}),         json!({"a": [1]}),          "s objects x a"),
        (json!({"a": 1}),              json!({}),                  "s objects x a"),
        (json!({}),                    json!({"a": 1}),            "s objects x a"),
        (json!({"a": "<unstable>"}),   json!({"a": [1]}),          ""),
        (json!({"a": "<unstable>"}),   json!({}),                  ""),
        (json!({"a": "True"}),         json!({"a": true}),         "s objects x a"),
    ];
    for (want, got, path) in table {
        let wrap = |object: Value| [snapshot(json!({"x": object}), json!({}), json!({}))];
        let found = differences(&wrap(want.clone()), &wrap(got.clone()), Counts::Relaxed);
        let paths: Vec<String> = found.iter().map(|d| d.path.join(" ")).collect();
        assert_eq!(paths.join(", "), path, "{want} {got}");
    }
    let missing = differences(&[snapshot(json!({}), json!({}), json!({}))], &[], Counts::Relaxed);
    assert_eq!(missing[0].want, Some(json!("a snapshot")));
}

#[test]
fn field_managers_are_compared_where_both_are_known() {
    #[rustfmt::skip]
    let table = [
        // case                          recorded                     seen                           differences
        ("the same",                     json!({"x": "m Update"}),    json!({"x": "m Update"}),      ""),
        ("another operation",            json!({"x": "m Update"}),    json!({"x": "m Apply"}),       "s managers x"),
        ("a further manager",            json!({"x": "m Update"}),    json!({"x": "m Update", "z": "m Update"}), "s managers z"),
        ("none",                         json!({"x": "m Update"}),    json!({}),                     "s managers x"),
        ("an old recording",             json!({}),                   json!({"x": "m Update"}),      ""),
        ("unstable",                     json!({"x": "<unstable>"}),  json!({"x": "m Update"}),      ""),
        ("an object that is unstable",   json!({"y": "m Update"}),    json!({"y": "n Update"}),      ""),
    ];
    for (case, want, got, path) in table {
        let wrap = |managers: Value| {
            let objects = snapshot(json!({"x": {}, "y": "<unstable>", "z": {}}), json!({}), json!({}));
            [Snapshot { managers: serde_json::from_value(managers).unwrap(), ..objects }]
        };
        let found = differences(&wrap(want), &wrap(got), Counts::Relaxed);
        let paths: Vec<String> = found.iter().map(|d| d.path.join(" ")).collect();
        assert_eq!(paths.join(", "), path, "{case}");
    }
}

#[test]
fn a_recording_keeps_what_runs_agree_on() {
    let run = |phase: &str, extra: Value, creates: i64| {
        let mut objects = json!({"Pod/a": {"phase": phase, "node": "n"}});
        for (key, value) in extra.as_object().unwrap() {
            objects[key] = value.clone();
        }
        vec![snapshot(objects, json!({"e": creates}), json!({"k create pods 201": creates}))]
    };
    let mut flaky = BTreeSet::new();
    let merged = merge(run("Running", json!({}), 1), run("Pending", json!({"Pod/b": {}}), 2), &mut flaky);
    assert_eq!(merged[0].objects["Pod/a"], json!({"phase": "<unstable>", "node": "n"}));
    assert_eq!(merged[0].objects["Pod/b"], json!("<unstable>"));
    assert_eq!(merged[0].events["e"], json!("some"));
    let want = [
        "snapshots/0/events/e (count 1 or 2)",
        "snapshots/0/objects/Pod/a/phase",
        "snapshots/0/objects/Pod/b (in one run only)",
        "snapshots/0/requests/k create pods 201 (count 1 or 2)",
    ];
    assert_eq!(flaky.iter().map(String::as_str).collect::<Vec<_>>(), want);
    // A merged recording accepts both of the runs that made it.
    for phase in ["Running", "Pending"] {
        assert!(differences(&merged, &run(phase, json!({}), 7), Counts::Strict).is_empty());
    }
}

#[test]
fn differences_are_explained_line_by_line() {
    let path = |last: &str| vec!["scaled".to_owned(), "objects".to_owned(), last.to_owned()];
    let text = explain(&[
        Difference { path: path("replicas"), want: Some(json!(3)), got: Some(json!(2)) },
        Difference { path: path("Pod/a"), want: Some(json!("x")), got: None },
        Difference {
            path: path("list"),
            want: Some(json!([1, 2, 3, 4, 5, 6, 7])),
            got: Some(json!([1, 2, 3, 4, 5, 6])),
        },
    ]);
    let want = "  at snapshot 'scaled':\n    objects / replicas\n      - 3\n      + 2\n    objects / Pod/a\n      - \"x\"\n      + (absent)\n    objects / list\n      …\n         4,\n         5,\n      -  6,\n      -  7\n      +  6\n        ]\n";
    assert_eq!(text, want);
}

#[test]
fn misspelt_scenarios_name_the_culprit() {
    let with_step = |step: &str| format!("name: x\nabout: y\ncontrollers: [a]\nsteps:\n- {step}\n");
    #[rustfmt::skip]
    let table = [
        ("aply: {}",                                     "step 1 (aply): there is no such step"),
        ("pods: {selekt: a, set: ready}",                "step 1 (pods): unknown key \"selekt\""),
        ("pods: {select: a, set: happy}",                "step 1 (pods): unknown variant `happy`"),
        ("wait: {path: x}",                              "step 1 (wait): a wait needs one of"),
        ("wait: {for: pods/x, path: y}",                 "step 1 (wait): a path needs an is or a not"),
        ("kubelet: maybe",                               "step 1 (kubelet): a kubelet is on or off"),
        ("[1]",                                          "step 1: a step is one verb"),
        ("confirm-delete: {pick: -1}",                   "step 1 (confirm-delete): pick is all"),
    ];
    for (step, want) in table {
        let error = Scenario::parse(&with_step(step)).unwrap_err();
        assert!(error.contains(want), "{step}: {error}");
    }
    let twice = "name: x\nabout: y\ncontrollers: []\nsteps: [{snapshot: a}, {snapshot: a}]";
    assert!(Scenario::parse(twice).unwrap_err().contains("two snapshots are labelled \"a\""));
}

#[test]
fn every_scenario_of_the_corpus_reads_and_has_its_recording() {
    let corpus = Corpus::in_folder(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden"));
    let all = corpus.select(&[]).unwrap();
    assert!(all.len() >= 96, "{} scenarios", all.len());
    let missing: Vec<_> = all.iter().filter(|s| !corpus.has_recording(s)).map(|s| &s.name).collect();
    assert!(missing.is_empty(), "without a recording: {missing:?}");
    assert!(corpus.select(&["no-such-thing".to_owned()]).is_err());
}
