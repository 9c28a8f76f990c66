use std::sync::Arc;

use flyball_api::{ControllerRevision, Labels, ObjectMeta, RawJson, ResourceVersion};
use flyball_common::revisions::data_of;
use flyball_runtime::plan::{Answer, Done};
use flyball_runtime::{Outcome, Plan};
use serde_json::json;

use super::world::{pods, set};
use crate::daemonset::history::{after_label, collision, label, labelled, obsolete, of_template, revision};

#[test]
fn a_template_has_one_revision_which_is_the_latest() {
    let set = set("");
    let with = |name: &str, number: i64, is_template: bool| {
        let data = match is_template {
            true => data_of(set.spec.template.raw()),
            false => RawJson::from_value(&json!(name)),
        };
        let mut revision = revision(&set, data, number);
        revision.metadata.name = name.into();
        revision.metadata.labels = revision.metadata.labels.with("controller-revision-hash", name);
        Arc::new(revision)
    };
    #[rustfmt::skip]
    let table = [
        // case            history                                                   revision, old ones, effects
        ("no history",     vec![],                                                   "new 1 of agent-7b7668b77; ; "),
        ("the latest",     vec![with("a", 1, false), with("new", 2, true)],          "2 of new; a; "),
        ("new",            vec![with("a", 1, false), with("b", 5, false)],           "new 6 of agent-7b7668b77; a b; "),
        ("a rollback",     vec![with("new", 1, true), with("a", 2, false)],          "1 of new; a; \
            update ControllerRevision ns/new: the template is equal to this earlier revision"),
        ("two equal ones", vec![with("old", 1, true), with("a", 2, false), with("new", 3, true)], "3 of new; a; \
            patch Pod ns/x: several revisions have the same template, \
            delete ControllerRevision ns/old: it is equal to a later revision"),
    ];
    for (case, history, want) in table {
        let found = of_template(&set, history, &pods("x@n1:old y@n2"));
        let new = if found.is_new { "new " } else { "" };
        let old: Vec<_> = found.old.iter().map(|revision| revision.metadata.name.as_str()).collect();
        let revision = format!("{new}{} of {}", found.revision.revision, found.revision.metadata.name);
        let effects = Plan::of(found.effects).to_string().replace('\n', ", ");
        assert_eq!(format!("{revision}; {}; {effects}", old.join(" ")), want, "{case}");
    }
}

#[test]
fn revisions_without_the_label_get_their_name_as_hash() {
    let mut revision = ControllerRevision::default();
    revision.metadata.name = "agent-1".into();
    let labelled_now = labelled(&revision).unwrap();
    assert_eq!(labelled_now.metadata.labels.get("controller-revision-hash"), Some("agent-1"));
    assert_eq!(labelled(&labelled_now), None);

    let mut history = [Arc::new(labelled_now), Arc::new(revision)];
    let writes = label(&history);
    assert_eq!(writes.iter().map(|write| write.tag).collect::<Vec<_>>(), [1]);
    assert_eq!(writes[0].to_string(), "update ControllerRevision agent-1: its hash label is missing");
    let meta = ObjectMeta { resource_version: ResourceVersion(7), ..history[0].metadata.clone() };
    let done = vec![Done { tag: 1, answer: Answer::Written(Some(Box::new(meta))) }];
    after_label(&mut history, &Outcome { done, failures: vec![] });
    assert_eq!(history[1].metadata.resource_version, ResourceVersion(7), "later writes need it");
    assert!(label(&history).is_empty());
}

#[test]
fn a_collision_is_counted_in_the_status() {
    let mut set = set("");
    set.status.collision_count = Some(2);
    let plan = collision(&set);
    let want = "update DaemonSet/status ns/agent: another revision has the name of this hash\n\
        fail: the name of the new revision is taken; another is tried";
    assert_eq!(plan.to_string(), want);
    let write = plan.writes()[0];
    assert_eq!(write.body().unwrap()["status"]["collisionCount"], 3);
    assert_eq!(write.subresource, Some("status"));
}

#[test]
fn history_keeps_revisions_of_pods_and_the_latest_others() {
    let revision = |hash: &str| {
        let mut revision = ControllerRevision::default();
        revision.metadata.name = hash.into();
        revision.metadata.labels = Labels::from_iter([("controller-revision-hash", hash)]);
        Arc::new(revision)
    };
    let old_ones = ["a", "old", "b", "c"].map(revision);
    let gone = |limit: i32| {
        let mut set = set("");
        let mut spec = set.spec.raw().to_value();
        spec["revisionHistoryLimit"] = limit.into();
        set.spec = serde_json::from_value(spec).unwrap();
        let pods = pods("x@n1:old y@n2");
        obsolete(&set, &old_ones, &pods)
            .iter()
            .map(|one| one.metadata.name.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(gone(10), "");
    assert_eq!(gone(4), "");
    assert_eq!(gone(3), "a");
    assert_eq!(gone(2), "a b");
    assert_eq!(gone(0), "a b c");
}
