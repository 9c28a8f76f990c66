use std::time::Duration;

use flyball_api::{Namespace, ObjectMeta, ResourceType, ResourceVersion, Timestamp};
use flyball_client::{ApiStatus, Discovery, Error, Propagation, Verb};
use flyball_runtime::plan::{Failure, Operation};
use flyball_runtime::{ErrorKinds, Outcome, Plan, Retry};
use serde_json::{Value, json};

use crate::namespace::content::{Collection, Remains};
use crate::namespace::invariants::check;
use crate::namespace::plan::{
    ATTEMPTS, AfterAttempt, View, after_attempt, check_again_after, delete, delete_collection, finalize,
    finalize_again, mark_terminating, plan,
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
        let findings = Findings::of(Ok(&Discovery { resources: vec![], failures: vec![] }), &remains, true);
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
        let findings = Findings::of(Ok(&discovery), &remains, true);
        let view = View { namespace, findings: &findings, remains: &remains, now };
        let found = check(&view, &Plan::of([finalize(namespace)])).err().unwrap_or_default();
        assert_eq!(found, want, "{case}");
    }
    let findings = Findings::of(Ok(&discovery), &[], true);
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

#[test]
fn a_namespace_that_has_changed_is_finalized_as_it_is_now() {
    let changed = deleted("Terminating");
    let mut now = changed.clone();
    now.metadata.resource_version = ResourceVersion(8);
    let body = finalize_again(&changed, &now).unwrap().body().unwrap();
    assert_eq!(body["metadata"]["resourceVersion"], "8");
    assert_eq!(body["spec"]["finalizers"], json!(["x/hold"]));
    let is_finalized = |change: fn(&mut Namespace)| {
        let mut now = now.clone();
        change(&mut now);
        finalize_again(&changed, &now).is_some()
    };
    assert!(is_finalized(|_| ()));
    assert!(!is_finalized(|now| now.metadata.uid = "another".into()), "another namespace of that name");
    // A restore of etcd causes a conflict, too.
    assert!(!is_finalized(|now| now.metadata.resource_version = ResourceVersion(6)), "of an earlier time");
    assert!(!is_finalized(|now| now.metadata.deletion_timestamp = None), "not deleted any more");
}

#[test]
fn only_conflicts_cause_another_attempt_and_not_without_end() {
    let namespace = deleted("Terminating");
    let outcome = |code: u16, reason: &str| {
        let status = ApiStatus { code, reason: reason.into(), ..ApiStatus::default() };
        let mut outcome = Outcome::default();
        outcome.failures.push(Failure {
            tag: Some(()),
            verb: Some(Verb::Update),
            doing: "updating".to_owned(),
            message: "refused".to_owned(),
            error: Some(Error::Status(Box::new(status))),
            retry: Retry::Backoff,
            is_expected: false,
        });
        outcome
    };
    #[rustfmt::skip]
    let table = [
        // case               attempt       outcome                     what follows
        ("finalized",         1,            Outcome::default(),         Some(AfterAttempt::End)),
        ("a conflict",        1,            outcome(409, "Conflict"),   Some(AfterAttempt::Again)),
        ("the last but one",  ATTEMPTS - 1, outcome(409, "Conflict"),   Some(AfterAttempt::Again)),
        ("the last one",      ATTEMPTS,     outcome(409, "Conflict"),   None),
        ("another error",     1,            outcome(403, "Forbidden"),  Some(AfterAttempt::End)),
    ];
    for (case, attempt, outcome, want) in table {
        assert_eq!(after_attempt(&namespace, attempt, &outcome).ok(), want, "{case}");
    }
}
