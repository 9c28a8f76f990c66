use flyball_api::Labels;
use flyball_api::pod_template::POD_TEMPLATE_HASH;
use serde_json::{Value, json};

use super::world::{World, deployment, set};
use crate::deployment::annotations::{REVISION, REVISION_HISTORY};
use crate::deployment::decision::{Action, decide};
use crate::deployment::history::{last_revision, next_revision, revised};

#[test]
fn the_current_template_has_the_highest_revision() {
    #[rustfmt::skip]
    let table = [
        // case                              sets                                              plan
        ("up to date",                       "a=0,rev=1 new=3/3,rev=2",                        ""),
        ("gone back to",                     "new=0,rev=1 b=3/3,rev=2",                        "revise new to 3, new 0>1"),
        ("gaps do not matter",               "a=0,rev=7 new=3/3,rev=9",                        ""),
        ("adopted without a revision",       "new=3/3",                                        "revise new to 1"),
        ("others' are no numbers",           "a=0,rev=x new=3/3,rev=1",                        ""),
        ("its own is no number",             "a=0,rev=4 new=3/3,rev=x",                        ""),
    ];
    for (case, sets, want) in table {
        assert_eq!(World::new("replicas=3 surge=1 unavailable=0", sets).planned(), want, "{case}");
    }
}

#[test]
fn earlier_revisions_and_annotations_are_copied() {
    #[rustfmt::skip]
    let table = [
        // case                       deployment                       set                              next   annotations
        ("a first revision",          "",                              "new=1",                         1, "rev=1"),
        ("one is remembered",         "",                              "new=1,rev=1",                   3, "rev=3 hist=1"),
        ("another one, too",          "",                              "new=1,rev=3,hist=1",            5, "rev=5 hist=1,3"),
        ("it has a later one",        "",                              "new=1,rev=7",                   3, "rev=7"),
        ("a change cause",            "note=cause:edit",               "new=1,rev=1,note=cause:create", 1, "cause=edit rev=1"),
        ("not the Deployment's own",  "revision=9 rollback=2",         "new=1,rev=1",                   1, "rev=1"),
        ("what was there stays",      "note=b:2",                      "new=1,rev=1,note=a:1",          1, "a=1 b=2 rev=1"),
        ("no number: left alone",     "note=b:2",                      "new=1,rev=x",                   3, "rev=x"),
    ];
    for (case, text, replica_set, next, want) in table {
        let replica_set = set(replica_set, 1);
        let annotations = revised(&deployment(text), &replica_set.metadata.annotations, next);
        let name = |key: &str| match key {
            REVISION => "rev".to_owned(),
            REVISION_HISTORY => "hist".to_owned(),
            other => other.to_owned(),
        };
        let shown: Vec<_> = annotations.iter().map(|(key, value)| format!("{}={value}", name(key))).collect();
        assert_eq!(shown.join(" "), want, "{case}");
    }
}

#[test]
fn the_list_of_earlier_revisions_drops_the_oldest() {
    let long: String = (1000..1400).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let held = Labels::from_iter([(REVISION, "1400"), (REVISION_HISTORY, &long)]);
    let annotations = revised(&deployment(""), &held, 1402);
    let history = annotations.get(REVISION_HISTORY).unwrap();
    assert_eq!(history.len(), 1999);
    assert!(history.starts_with("1001,") && history.ends_with(",1399,1400"), "{history}");
    let one_word = Labels::from_iter([(REVISION, "7".to_owned()), (REVISION_HISTORY, "1".repeat(3000))]);
    assert_eq!(revised(&deployment(""), &one_word, 8).get(REVISION_HISTORY), Some("7"));
}

#[test]
fn empty_old_sets_beyond_the_limit_are_deleted() {
    #[rustfmt::skip]
    let table = [
        // case                           deployment             sets                                                 plan
        ("within the limit",              "limit=2 complete",    "a=0,rev=1 b=0,rev=2 new=3/3,rev=3",                 ""),
        ("the lowest revision goes",      "limit=1 complete",    "a=0,rev=2 b=0,rev=1 new=3/3,rev=3",                 "delete b"),
        ("of equals the oldest",          "limit=1 complete",    "a=0 b=0 new=3/3,rev=3",                             "delete a"),
        ("no history at all",             "limit=0 complete",    "a=0,rev=1 b=0,rev=2 new=3/3,rev=3",                 "delete a, delete b"),
        ("one with pods stays",           "limit=0 complete",    "a=0,rev=1,pods=1 b=0,rev=2 new=3/3,rev=3",          "delete b"),
        ("one not looked at yet stays",   "limit=0 complete",    "a=0,rev=1,unseen b=0,rev=2 new=3/3,rev=3",          "delete b"),
        ("one being deleted is gone",     "limit=1 complete",    "a=0,rev=1,deleting b=0,rev=2 new=3/3,rev=3",        ""),
        ("not before it is complete",     "limit=0",             "a=0,rev=1 new=3/3,rev=2",                           ""),
        ("no limit",                      "complete",            "a=0,rev=1 b=0,rev=2 new=3/3,rev=3",                 ""),
        ("a limit that means none",       "limit=2147483647 complete", "a=0,rev=1 b=0,rev=2 new=3/3,rev=3",           ""),
    ];
    for (case, deployment, sets, want) in table {
        assert_eq!(World::new(deployment, sets).planned(), want, "{case}");
    }
}

#[test]
fn revisions_are_counted_over_all_sets() {
    #[rustfmt::skip]
    let table = [
        // sets                                  next  last
        ("",                                     1,    0),
        ("new=3,rev=1",                          1,    0),
        ("a=0,rev=1 new=3,rev=2",                2,    1),
        ("a=0,rev=5 b=0,rev=3 new=3,rev=6",      6,    5),
        ("a=0,rev=x new=3,rev=2",                1,    0),
        ("a=0 new=3,rev=2",                      1,    0),
    ];
    for (sets, next, last) in table {
        let world = World::new("", sets);
        let fleet = decide(&world.view()).fleet;
        assert_eq!((next_revision(&fleet), last_revision(&fleet)), (next, last), "{sets}");
    }
}

#[test]
fn a_new_set_has_an_owner_reference_and_the_hash() {
    let world = World::new("replicas=3 minready=5 note=kubernetes.io/change-cause:first revision=9", "");
    let view = world.view();
    let planned = decide(&view);
    let [Action::Create(new)] = planned.actions.as_slice() else { panic!("{:?}", planned.actions) };
    let body = new.manifest(&world.deployment);
    let hash = new.hash.as_str();
    let at = |path: &str| body.pointer(path).cloned().unwrap_or(Value::Null);
    assert_eq!(at("/metadata/name"), json!(format!("web-{hash}")));
    for labels in ["/metadata/labels", "/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
        assert_eq!(at(labels), json!({"app": "web", POD_TEMPLATE_HASH: hash}), "{labels}");
    }
    assert_eq!(at("/spec/template/spec"), json!({"containers": [{"name": "c", "image": "new"}]}));
    assert_eq!((at("/spec/replicas"), at("/spec/minReadySeconds")), (json!(3), json!(5)));
    assert_eq!(
        at("/metadata/annotations"),
        json!({
            "deployment.kubernetes.io/desired-replicas": "3",
            "deployment.kubernetes.io/max-replicas": "4",
            "deployment.kubernetes.io/revision": "1",
            "kubernetes.io/change-cause": "first",
        })
    );
    assert_eq!(
        at("/metadata/ownerReferences"),
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web",
            "controller": true, "blockOwnerDeletion": true}])
    );
}
