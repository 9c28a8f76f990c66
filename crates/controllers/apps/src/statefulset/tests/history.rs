use std::sync::Arc;

use flyball_api::{ControllerRevision, RawJson};
use flyball_common::revisions;
use serde_json::json;

use super::world::{claims, pods, set, view};
use crate::statefulset::history::{
    Template, collisions_of, current, obsolete, of_template, renamed, revision,
};

/// A template as the server serves it, with all its defaults.
fn template(image: &str, args: Option<&str>) -> RawJson {
    let mut container = json!({
        "image": image, "imagePullPolicy": "Always", "name": "c", "resources": {},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    });
    if let Some(args) = args {
        container["args"] = json!([args]);
    }
    RawJson::from_value(&json!({"metadata": {"labels": {"app": "db"}}, "spec": {
        "containers": [container], "dnsPolicy": "ClusterFirst", "restartPolicy": "Always",
        "schedulerName": "default-scheduler", "securityContext": {}, "terminationGracePeriodSeconds": 30,
    }}))
}

#[test]
fn revisions_have_the_names_of_upstream() {
    #[rustfmt::skip]
    let recorded_from_v1_36_4 = [
        ("reg.example/v1",           None,             "db-7f655bcbf6"),
        ("reg.example/never-ready",  None,             "db-678fbd8f4f"),
        ("reg.example/v1",           Some("<a> & b"),  "db-855c967b8c"),
        ("reg.example/v2",           Some("<a> & b"),  "db-748f75c7c8"),
        ("reg.example/v4",           Some("<a> & b"),  "db-557fb6d84"),
    ];
    for (image, args, name) in recorded_from_v1_36_4 {
        let made = revision(&set("1"), revisions::data_of(&template(image, args)), 1, 0);
        assert_eq!(made.metadata.name, name, "{image} {args:?}");
    }
}

#[test]
fn a_revision_has_labels_and_annotations() {
    let made = revision(&set("1"), revisions::data_of(&template("reg.example/v1", None)), 4, 0);
    assert_eq!(made.metadata.labels.get("controller.kubernetes.io/hash"), Some("7f655bcbf6"));
    assert_eq!(made.metadata.labels.get("app"), Some("db"));
    assert_eq!(made.metadata.annotations.get("note"), Some("kept"));
    assert_eq!(made.revision, 4);
}

#[test]
fn a_collision_changes_the_name_and_not_the_label() {
    let first = revision(&set("1"), revisions::data_of(&template("reg.example/v1", None)), 4, 0);
    let second = renamed(&set("1"), first.clone(), 1);
    assert_eq!(second.metadata.name, revision(&set("1"), first.data.clone(), 4, 1).metadata.name);
    assert_ne!(second.metadata.name, first.metadata.name);
    assert_eq!((second.metadata.labels, second.revision), (first.metadata.labels, 4));
}

#[test]
fn collisions_that_the_status_does_not_count_are_found_by_the_name() {
    let (set, data) = (set("1"), revisions::data_of(&template("reg.example/v1", None)));
    #[rustfmt::skip]
    let table = [
        // case                            created after  recorded  found
        ("none",                                    0,     0,    0),
        ("one that went unnoted",                   1,     0,    1),
        ("one that was noted",                      1,     1,    1),
        ("made before others met theirs",           0,     2,    2),
        ("more than can be by accident",            9,     0,    0),
    ];
    for (case, after, recorded, found) in table {
        let name = revision(&set, data.clone(), 1, after).metadata.name;
        assert_eq!(collisions_of(&set, &name, &data, recorded), found, "{case}");
    }
    assert_eq!(collisions_of(&set, "another-7f655bcbf6", &data, 0), 0, "inherited from another set");
}

#[test]
fn the_revision_of_a_template_is_found_renumbered_or_created() {
    let set = set("1");
    let of = |data: &str, number: i64| {
        let data = match data {
            "template" => revisions::data_of(set.spec.template.raw()),
            // The same template with an explicit default.
            "same" => {
                let mut template = set.spec.template.raw().to_value();
                template["spec"]["restartPolicy"] = "Always".into();
                revisions::data_of(&RawJson::from_value(&template))
            }
            other => RawJson::from_value(&json!(other)),
        };
        Arc::new(revision(&set, data, number, 0))
    };
    #[rustfmt::skip]
    let table = [
        // case                             history                     by meaning  found
        ("no history",                      vec![],                          false, "new 1"),
        ("the latest",                      vec!["other", "template"],       false, "known 2"),
        ("an earlier one",                  vec!["template", "other"],       false, "renumbered 3"),
        ("none of them",                    vec!["other", "another"],        false, "new 3"),
        ("the latest looks different",      vec!["other", "same"],           true,  "known 2"),
        ("which counts only if asked for",  vec!["other", "same"],           false, "new 3"),
        ("an earlier one looks different",  vec!["same", "other"],           true,  "new 3"),
    ];
    for (case, history, by_meaning, want) in table {
        let history: Vec<_> = history.into_iter().zip(1..).map(|(data, number)| of(data, number)).collect();
        let found = match of_template(&set, &history, by_meaning) {
            (Template::Known(revision), 0) => format!("known {}", revision.revision),
            (Template::Renumbered(revision), 0) => format!("renumbered {}", revision.revision),
            (Template::New(revision), 0) => format!("new {}", revision.revision),
            other => panic!("{other:?}"),
        };
        assert_eq!(found, want, "{case}");
    }
}

#[test]
fn the_current_revision_is_the_one_of_the_status() {
    let mut set = set("1");
    let history =
        [1, 2].map(|number| Arc::new(revision(&set, RawJson::from_value(&json!(number)), number, 0)));
    assert_eq!(current(&set, &history), None);
    set.status.current_revision = history[0].metadata.name.clone();
    assert_eq!(current(&set, &history), Some(&history[0]));
}

#[test]
fn history_keeps_revisions_of_pods_and_the_latest_others() {
    let revision = |name: &str| {
        let mut revision = ControllerRevision::default();
        revision.metadata.name = format!("db-{name}").as_str().into();
        Arc::new(revision)
    };
    let history = ["a", "b", "broken", "c", "old", "new"].map(revision);
    let gone = |limit: i32| {
        let mut spec = set("1").spec.raw().to_value();
        spec["revisionHistoryLimit"] = limit.into();
        let mut set = set("1");
        set.spec = serde_json::from_value(spec).unwrap();
        let (pods, claims) = (pods("0:broken"), claims(""));
        let view = view(&set, &pods, &claims);
        obsolete(&view, &history)
            .iter()
            .map(|revision| revision.metadata.name.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(gone(10), "");
    assert_eq!(gone(3), "");
    assert_eq!(gone(2), "db-a");
    assert_eq!(gone(0), "db-a db-b db-c");
    assert_eq!(gone(-1), "", "no limit");
}
