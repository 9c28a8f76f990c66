use flyball_api::{ObjectMeta, OwnerReference, ResourceType, ResourceVersion, Timestamp};
use flyball_client::Patch;
use flyball_runtime::Plan;
use flyball_runtime::plan::Operation;
use serde_json::{Value, json};

use crate::gc::identity::{Identity, Kind};
use crate::gc::plan::{
    Dependents, Finalizer, Standing, Style, Target, View, blocked, misplaced, plan, release,
    remove_finalizer, version_to_delete,
};

const THINGS: ResourceType = ResourceType::new("", "v1", "things", "Thing", true);

fn thing(name: &str) -> Identity {
    Identity {
        kind: Kind::new("v1".into(), "Thing".into()),
        namespace: "n".into(),
        name: name.into(),
        uid: name.into(),
    }
}

/// The plan for an object with one owner for each letter: `s`olid, `a`bsent, `w`aiting, `o`utlived; with these
/// finalizers, of which `deleting` means that it is being deleted.
fn planned(owners: &str, finalizers: &str, dependents: &str, style: Style) -> Plan {
    let standings: Vec<Standing> = owners
        .chars()
        .map(|owner| match owner {
            's' => Standing::Solid,
            'a' => Standing::Absent,
            'o' => Standing::Outlived,
            _ => Standing::Waiting,
        })
        .collect();
    let reference = |(n, owner)| OwnerReference {
        kind: "Owner".into(),
        name: format!("{owner}{n}").into(),
        uid: format!("{owner}{n}").as_str().into(),
        block_owner_deletion: Some(true),
        ..OwnerReference::default()
    };
    let seen = ObjectMeta {
        uid: "x".into(),
        resource_version: ResourceVersion(7),
        deletion_timestamp: finalizers.contains("deleting").then_some(Timestamp::UNIX_EPOCH),
        owner_references: owners.chars().enumerate().map(reference).collect(),
        finalizers: finalizers.split_whitespace().map(Into::into).collect(),
        ..ObjectMeta::default()
    };
    let target = Target { resource: &THINGS, object: &thing("x") };
    let dependents = Dependents { any: !dependents.is_empty(), any_waiting: dependents == "waiting" };
    plan(&View { target, seen: &seen, standings: &standings, dependents, refused: None, style })
}

/// The writes: `release OWNERS`, `unblock` and `delete PROPAGATION`.
fn shown(plan: &Plan) -> String {
    let show = |operation: &Operation| match operation {
        Operation::Delete(options) => {
            assert_eq!(
                (&options.uid, options.resource_version),
                (&Some("x".into()), Some(ResourceVersion(7)))
            );
            format!("delete {:?}", options.propagation.unwrap()).to_lowercase()
        }
        Operation::Patch(Patch::Strategic(patch)) => {
            let references = patch["metadata"]["ownerReferences"].as_array().unwrap();
            let deleted = references.iter().filter(|reference| reference["$patch"] == "delete");
            let deleted: Vec<&str> = deleted.filter_map(|reference| reference["uid"].as_str()).collect();
            if deleted.is_empty() { "unblock".to_owned() } else { format!("release {}", deleted.join(" ")) }
        }
        other => panic!("{other:?}"),
    };
    plan.writes().iter().map(|write| show(&write.operation)).collect::<Vec<_>>().join(", ")
}

#[test]
fn owners_decide_about_an_object() {
    #[rustfmt::skip]
    let table = [
        // case                                           owners  finalizers                   dependents  plan
        ("no owner references",                           "",     "",                          "",         ""),
        ("an owner keeps it",                             "s",    "",                          "",         ""),
        ("one owner of two keeps it",                     "sa",   "",                          "",         "release a1"),
        ("a waiting owner does not wait for it",          "ws",   "",                          "some",     "release w0"),
        ("all others are released at once",               "asw",  "",                          "",         "release a0 w2"),
        ("deleted already",                               "a",    "deleting",                  "",         ""),
        ("deleted already, with an owner",                "sa",   "deleting",                  "some",     ""),
        ("no owner left",                                 "a",    "",                          "",         "delete background"),
        ("dependents do not matter then",                 "a",    "",                          "some",     "delete background"),
        ("orphaning was requested",                       "a",    "orphan",                    "some",     "delete orphan"),
        ("orphaning comes first",                         "a",    "foregroundDeletion orphan", "",         "delete orphan"),
        ("foreground deletion was requested",             "aa",   "foregroundDeletion",        "",         "delete foreground"),
        ("its owner was deleted with orphaning",          "o",    "",                          "some",     "release o0"),
        ("and is judged by the others after that",        "oaw",  "",                          "some",     "release o0"),
        ("a waiting owner, no dependents",                "w",    "",                          "",         "delete background"),
        ("foreground deletion includes dependents",       "w",    "",                          "some",     "delete foreground"),
        ("absent and waiting",                            "aw",   "",                          "some",     "delete foreground"),
        ("a possible circle is broken",                   "w",    "",                          "waiting",  "unblock, delete foreground"),
    ];
    for (case, owners, finalizers, dependents, want) in table {
        assert_eq!(shown(&planned(owners, finalizers, dependents, Style::Strategic)), want, "{case}");
    }
}

#[test]
fn a_plan_says_why() {
    #[rustfmt::skip]
    let table = [
        ("a",  "",        "delete Thing n/x: its owner is gone: Owner a0"),
        ("sa", "",        "patch Thing n/x: these owners are gone or are deleted without it"),
        ("w",  "",        "delete Thing n/x: its owner is being deleted and waits for it: Owner w0"),
        ("aw", "waiting", "patch Thing n/x: it and its owners may wait for each other in a circle\n\
                           delete Thing n/x: its owners are gone: Owner a0; or wait for it: Owner w1"),
    ];
    for (owners, dependents, want) in table {
        assert_eq!(planned(owners, "", dependents, Style::Strategic).to_string(), want);
    }
}

#[test]
fn custom_resources_get_merge_patches_over_the_version_that_was_read() {
    let patch = |owners: &str, dependents: &str| {
        let plan = planned(owners, "", dependents, Style::Merge);
        let Operation::Patch(Patch::Merge(patch)) = &plan.writes()[0].operation else { panic!("{plan}") };
        patch["metadata"].clone()
    };
    let released = patch("sa", "");
    assert_eq!((&released["uid"], &released["resourceVersion"]), (&json!("x"), &json!("7")));
    assert_eq!(released["ownerReferences"][0]["uid"], "s0");
    assert_eq!(released["ownerReferences"].as_array().unwrap().len(), 1);
    assert_eq!(patch("w", "waiting")["ownerReferences"][0]["blockOwnerDeletion"], false);
}

#[test]
fn a_finalizer_is_removed_and_blocking_dependents_are_waited_for() {
    let (object, other) = (thing("x"), thing("y"));
    let target = Target { resource: &THINGS, object: &object };
    let seen =
        |finalizer: &str| ObjectMeta { finalizers: [finalizer.into()].into(), ..ObjectMeta::default() };
    #[rustfmt::skip]
    let table = [
        (Finalizer::Foreground, "foregroundDeletion", "patch Thing n/x: none of its dependents blocks its deletion any more"),
        (Finalizer::Orphan,     "orphan",             "patch Thing n/x: its dependents no longer refer to it"),
        (Finalizer::Orphan,     "foregroundDeletion", ""),
    ];
    for (finalizer, has, want) in table {
        let plan: Plan = Plan::of(remove_finalizer(target, &seen(has), finalizer));
        assert_eq!(plan.to_string(), want);
    }
    assert_eq!(
        blocked([&object, &other].into_iter()).to_string(),
        "waiting for Thing/n/x to be deleted\nwaiting for Thing/n/y to be deleted"
    );
    let released = release(target, &["o".into()], None);
    assert_eq!(released.body().map(|body| body["metadata"]["uid"].clone()), Some(Value::from("x")));
}

#[test]
fn an_owner_in_another_namespace_is_reported_in_upstreams_words() {
    let reference = OwnerReference {
        api_version: "v1".into(),
        kind: "Thing".into(),
        name: "o".into(),
        uid: "u".into(),
        ..OwnerReference::default()
    };
    let (about, event) = misplaced(&thing("x"), &reference);
    assert_eq!((about.kind.as_str(), about.name.as_str(), about.uid.as_str()), ("Thing", "x", "x"));
    assert_eq!(
        event.to_string(),
        "event Warning OwnerRefInvalidNamespace: ownerRef [v1/Thing, namespace: n, name: o, uid: u] \
         does not exist in namespace \"n\""
    );
}

#[test]
fn an_object_that_changes_all_the_time_is_deleted_in_any_version() {
    let seen = |text: &str| {
        let (version, owners) = text.split_once(' ').unwrap();
        let reference = |name: char| OwnerReference {
            uid: name.to_string().as_str().into(),
            ..OwnerReference::default()
        };
        ObjectMeta {
            resource_version: ResourceVersion(version.parse().unwrap()),
            owner_references: owners.chars().map(reference).collect(),
            ..ObjectMeta::default()
        }
    };
    #[rustfmt::skip]
    let table = [
        // case                                   refused      seen     deleted in
        ("the first time",                         "",          "7 ab",  Some(7)),
        ("changed, but not its owners",            "5 ab",      "7 ab",  None),
        ("one owner more",                         "5 a",       "7 ab",  Some(7)),
        ("one owner less",                         "5 ab",      "7 a",   Some(7)),
        ("another owner",                          "5 a",       "7 b",   Some(7)),
        ("their order",                            "5 ab",      "7 ba",  Some(7)),
        ("not changed: refused for other reasons", "7 ab",      "7 ab",  Some(7)),
    ];
    for (case, refused, now, want) in table {
        let refused = (!refused.is_empty()).then(|| seen(refused));
        assert_eq!(version_to_delete(refused.as_ref(), &seen(now)), want.map(ResourceVersion), "{case}");
    }
}
