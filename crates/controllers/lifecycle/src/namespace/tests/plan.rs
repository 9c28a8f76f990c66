use std::time::Duration;

use flyball_api::{Namespace, ObjectMeta, ResourceType, ResourceVersion, Timestamp};
use flyball_client::{Discovery, Propagation};
use flyball_runtime::plan::Operation;
use flyball_runtime::{ErrorKinds, Plan};
use serde_json::{Value, json};

use crate::namespace::content::{Collection, Remains};
use crate::namespace::invariants::check;
use crate::namespace::plan::{
    View, check_again_after, delete, delete_collection, finalize, mark_terminating, plan,
};
use crate::namespace::status::Findings;

const THINGS: ResourceType = ResourceType::new("x.io", "v1", "things", "Thing", true);

fn namespace(metadata: Value, phase: &str) -> Namespace {
    let mut namespace = json!({
        "metadata": {"name": "n", "uid": "u", "resourceVersion": "7"},
        "spec": {"finalizers": ["kubernetes", "x/hold"]},
        "status": {"phase": phase},
    });
    for (field, value) in metadata.as_object().unwrap() {
        namespace["metadata"][field] = value.clone();
    }
    serde_json::from_value(namespace).unwrap()
}

fn deleted(phase: &str) -> Namespace {
    namespace(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), phase)
}

fn things(can_delete_collection: bool) -> Collection {
    Collection { resource: THINGS, can_list: true, can_delete_collection }
}

#[test]
fn a_namespace_that_is_being_deleted_is_marked_once() {
    let marked = "update Namespace/status n: its deletion was requested";
    #[rustfmt::skip]
    let table = [
        ("active",      namespace(json!({}), "Active"), ""),
        ("deleted",     deleted("Active"),              marked),
        ("terminating", deleted("Terminating"),         ""),
    ];
    for (case, namespace, want) in table {
        let write = mark_terminating(&namespace);
        assert_eq!(write.as_ref().map(ToString::to_string).unwrap_or_default(), want, "{case}");
        if let Some(write) = write {
            let body = write.body().unwrap();
            assert_eq!(body["status"]["phase"], "Terminating", "{case}");
            assert_eq!(body["metadata"]["resourceVersion"], "7", "{case}");
            assert_eq!(write.ignore, ErrorKinds::NONE, "{case}");
        }
    }
}

#[test]
fn content_is_deleted_with_one_request_if_the_resource_has_the_verb() {
    assert!(delete_collection(&things(false), "n").is_none());
    let all = delete_collection(&things(true), "n").unwrap();
    assert_eq!(all.to_string(), "deletecollection Thing n/*: its namespace is being deleted");
    let Operation::DeleteCollection(options) = &all.operation else { panic!("{all}") };
    assert_eq!((options.propagation, &options.uid), (Some(Propagation::Background), &None));
    let meta =
        ObjectMeta { namespace: "n".into(), name: "t".into(), uid: "u".into(), ..ObjectMeta::default() };
    let one = delete(&THINGS, &meta);
    assert_eq!(one.to_string(), "delete Thing n/t: its namespace is being deleted");
    let Operation::Delete(options) = &one.operation else { panic!("{one}") };
    assert_eq!((options.propagation, &options.uid), (Some(Propagation::Background), &Some("u".into())));
}

#[test]
fn a_namespace_is_finalized_once_nothing_is_left() {
    let report = "update Namespace/status n: what is left in it has changed";
    let left = |seconds, objects, finalizer: Option<&str>, error: Option<&str>| Remains {
        wait: Duration::from_secs(seconds),
        objects,
        finalizers: finalizer.map(|finalizer| (finalizer.into(), objects)).into_iter().collect(),
        error: error.map(str::to_owned),
    };
    #[rustfmt::skip]
    let table = [
        // case                remains                                    plan after the report
        ("empty",              left(0, 0, None, None),                    "update Namespace/finalize n: it is empty"),
        ("terminating pods",   left(30, 2, None, None),                   "again after 16s\nwaiting for Thing/n/* to be deleted: 2 left"),
        ("finalizers",         left(15, 1, Some("x/hold"), None),         "again after 8s\nwaiting for Thing/n/* to be deleted: 1 left, with finalizers x/hold"),
        ("something is wrong", left(0, 1, None, Some("it remains")),      "fail: it remains\nwaiting for Thing/n/* to be deleted: 1 left"),
    ];
    let now = "2026-01-01T00:00:10Z".parse::<Timestamp>().unwrap();
    for (case, left, want) in table {
        let remains = [(things(true), left)];
        let findings = Findings::of(Ok(&Discovery { resources: vec![], failures: vec![] }), &remains);
        let mut namespace = deleted("Active");
        let view = View { namespace: &namespace, findings: &findings, remains: &remains, now };
        let first = plan(&view);
        assert_eq!(check(&view, &first), Ok(()), "{case}");
        assert_eq!(first.to_string(), format!("{report}\n{want}"), "{case}");
        assert_eq!(first.writes()[0].ignore, ErrorKinds::ANSWERED, "{case}");
        let body = first.writes()[0].body().unwrap();
        assert_eq!(body["status"]["phase"], "Terminating", "{case}");
        namespace.status.conditions = serde_json::from_value(body["status"]["conditions"].clone()).unwrap();
        let again = plan(&View { namespace: &namespace, findings: &findings, remains: &remains, now });
        assert_eq!(again.to_string(), want, "{case}: nothing new to report");
    }
}

#[test]
fn a_namespace_that_is_not_empty_must_not_be_finalized() {
    let now = "2026-01-01T00:00:10Z".parse::<Timestamp>().unwrap();
    let discovery = Discovery { resources: vec![], failures: vec![] };
    let (deleted, active) = (deleted("Terminating"), namespace(json!({}), "Active"));
    let left =
        |objects, seconds| Remains { objects, wait: Duration::from_secs(seconds), ..Remains::default() };
    #[rustfmt::skip]
    let table = [
        // case            namespace  left                                        broken by finalizing
        ("empty",          &deleted,  left(0, 0),                                 ""),
        ("objects",        &deleted,  left(1, 15),                                "a namespace is finalized that may have things"),
        ("time",           &deleted,  left(0, 1),                                 "a namespace is finalized that may have things"),
        ("an error",       &deleted,  Remains::unknown(Duration::ZERO, "broken"), "a namespace is finalized after a failure: broken; a namespace is finalized that may have things"),
        ("not deleted",    &active,   left(0, 0),                                 "a namespace that is not being deleted is finalized"),
    ];
    for (case, namespace, left, want) in table {
        let remains = [(things(true), left)];
        let findings = Findings::of(Ok(&discovery), &remains);
        let view = View { namespace, findings: &findings, remains: &remains, now };
        let found = check(&view, &Plan::of([finalize(namespace)])).err().unwrap_or_default();
        assert_eq!(found, want, "{case}");
    }
    let findings = Findings::of(Ok(&discovery), &[]);
    let view = View { namespace: &deleted, findings: &findings, remains: &[], now };
    let found = |plan: Plan| check(&view, &plan).unwrap_err();
    assert_eq!(found(Plan::default()), "the namespace is neither finalized nor synced again");
    let mut other = deleted.clone();
    other.spec.finalizers = [].into();
    assert_eq!(found(Plan::of([finalize(&other)])), "finalizing leaves {} of {\"x/hold\"}");
    other.metadata.name = "other".into();
    assert!(
        found(Plan::of([mark_terminating(&other).unwrap_or_else(|| finalize(&other))]))
            .starts_with("update Namespace/finalize other: it is empty is not about the namespace")
    );
}

#[test]
fn finalizing_removes_one_finalizer_from_the_version_that_was_read() {
    let write = finalize(&deleted("Terminating"));
    let body = write.body().unwrap();
    assert_eq!(body["spec"], json!({"finalizers": ["x/hold"]}));
    assert_eq!(body["metadata"]["resourceVersion"], ResourceVersion(7).to_string());
    assert_eq!(write.ignore, ErrorKinds::NOT_FOUND);
}

#[test]
fn a_namespace_is_checked_again_after_half_the_time() {
    for (wait, want) in [(1, 1), (2, 2), (15, 8), (30, 16)] {
        assert_eq!(check_again_after(Duration::from_secs(wait)), Duration::from_secs(want));
    }
}
