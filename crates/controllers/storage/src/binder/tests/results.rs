//! What a sync leaves for the next one.

use std::sync::Arc;

use flyball_api::ObjectMeta;
use flyball_client::{ApiStatus, Error, Verb};
use flyball_runtime::plan::{Answer, Done, Failure};
use flyball_runtime::{Outcome, Retry};
use serde_json::json;

use super::volumes::{live, recycler, view as volume_view};
use super::world::{claim, class, volume};
use crate::binder::claim::{View, step};
use crate::binder::provision::Provisioning;
use crate::binder::reclaim::Live;
use crate::binder::results::{Record, of_claim, of_volume};
use crate::binder::writes::Tag;

pub(super) fn failed(tag: Tag, verb: Verb, reason: &str) -> Outcome<Tag> {
    let status = ApiStatus { code: 409, reason: reason.into(), ..ApiStatus::default() };
    let failure = Failure {
        tag: Some(tag),
        verb: Some(verb),
        doing: String::new(),
        message: reason.to_owned(),
        error: Some(Error::Status(Box::new(status))),
        retry: Retry::Backoff,
        is_expected: false,
    };
    Outcome { done: vec![], failures: vec![failure] }
}

#[test]
fn the_operation_of_a_claim_ends_fails_or_is_delayed() {
    let (csi, host) =
        (class("gold", "csi.x", "Immediate"), class("gold", "kubernetes.io/host-path", "Immediate"));
    let mut cloned = claim("c");
    cloned.spec = cloned
        .spec
        .edited(|spec| spec["dataSource"] = json!({"kind": "PersistentVolumeClaim", "name": "d"}))
        .unwrap();
    let (ok, conflict) = (Outcome::default, || failed(Tag::Other, Verb::Update, "Conflict"));
    let forbidden = || failed(Tag::Other, Verb::Update, "Forbidden");
    let class_set = |is_ok| Some(Record::ClassSet { is_ok });
    #[rustfmt::skip]
    let table = [
        // case                            claim                          volumes    class        outcome      recorded
        ("bound",                          claim("c"),                    Some("a"), Some(&csi),  ok(),        Some(Record::Done)),
        ("not bound",                      claim("c"),                    Some("a"), Some(&csi),  conflict(),  Some(Record::Failed)),
        ("a class was set",                claim("c class=-"),            None,      None,        ok(),        class_set(true)),
        ("a class could not be set",       claim("c class=-"),            None,      None,        forbidden(), class_set(false)),
        ("a provisioner was asked",        claim("c"),                    None,      Some(&csi),  ok(),        None),
        ("somebody else changed the claim", claim("c"),                   None,      Some(&csi),  conflict(),  None),
        ("it could not be asked",          claim("c"),                    None,      Some(&csi),  forbidden(), Some(Record::Failed)),
        ("no volume can be provisioned",   cloned,                        None,      Some(&host), ok(),        Some(Record::FailedAndDelayed)),
        ("the server refuses the volume",  claim("c"),                    None,      Some(&host), failed(Tag::Other, Verb::Create, "Forbidden"), Some(Record::Delayed)),
        ("nothing to do",                  claim("c names=a"),            None,      None,        ok(),        None),
    ];
    for (case, claim, volumes, class, outcome, want) in table {
        let volumes: Vec<_> = volumes.into_iter().map(|words| Arc::new(volume(words))).collect();
        let default = "bronze".into();
        let view = View {
            claim: &claim,
            named_volume: None,
            volumes: &volumes,
            class,
            is_class_cache_behind: false,
            has_waited_for_class: false,
            default_class: Some(&default),
            pods: &[],
            is_recent: true,
            provisioning: Provisioning {
                is_enabled: true,
                is_host_path_enabled: true,
                ..Provisioning::default()
            },
            attributes: true,
        };
        assert_eq!(of_claim(&view, &step(&view), &outcome), want, "{case}");
    }
}

#[test]
fn the_operation_of_a_volume_fails_or_waits_for_its_deletion() {
    let forbidden = |verb| failed(Tag::Other, verb, "Forbidden");
    let requested = vec![Record::DeletionRequested];
    #[rustfmt::skip]
    let table = [
        // case                                       removed                   outcome                    recorded
        ("its directory is busy",                     Some(Err("busy".into())), Outcome::default(),        vec![Record::FailedAndDelayed]),
        ("deleted",                                   Some(Ok(())),             Outcome::default(),        requested.clone()),
        ("the deletion may have reached the server",  Some(Ok(())),             forbidden(Verb::Delete),   requested),
        ("its finalizer is not removed",              Some(Ok(())),             forbidden(Verb::Update),   vec![Record::FailedAndDelayed]),
        ("somebody else changed the volume",          Some(Ok(())),             failed(Tag::Other, Verb::Update, "Conflict"), vec![]),
        ("not deleted",                               None,                     Outcome::default(),        vec![]),
    ];
    for (case, removed, outcome, want) in table {
        let mut view = volume_view("a of=c phase=Released policy=Delete", None);
        view.removed = removed;
        assert_eq!(of_volume(&view, &outcome), want, "{case}");
    }
}

#[test]
fn a_recycler_pod_is_followed_until_its_result_is_written() {
    let written = |tag| {
        let meta: ObjectMeta =
            serde_json::from_value(json!({"namespace": "ns", "name": "recycler", "uid": "u"})).unwrap();
        Outcome { done: vec![Done { tag, answer: Answer::Written(Some(Box::new(meta))) }], failures: vec![] }
    };
    let exists = Error::Status(Box::default());
    let exists =
        Outcome { done: vec![Done { tag: Tag::Pod, answer: Answer::Ignored(exists) }], failures: vec![] };
    let created = Record::RecyclerCreated(flyball_api::Key::new("ns", "recycler"), "u".into());
    let pod = |phase: &str| {
        let metadata = json!({"namespace": "default", "name": "recycler-for-a", "uid": "u"});
        Some(json!({"metadata": metadata, "status": {"phase": phase}}))
    };
    #[rustfmt::skip]
    let table = [
        // case                          pod            outcome                                     recorded
        ("created",                      None,          written(Tag::Pod),                          vec![created]),
        ("one of the name exists",       None,          exists,                                     vec![]),
        ("refused",                      None,          failed(Tag::Pod, Verb::Create, "Forbidden"), vec![Record::RecyclingFailed]),
        ("runs",                         pod("Running"), written(Tag::Other),                       vec![]),
        ("succeeded",                    pod("Succeeded"), written(Tag::Other),                     vec![Record::Recycled]),
        ("failed",                       pod("Failed"), written(Tag::Other),                        vec![Record::RecyclingFailed]),
        ("its result is not written",    pod("Failed"), failed(Tag::Other, Verb::Update, "Conflict"), vec![]),
    ];
    for (case, pod, outcome, want) in table {
        let words = "a of=c phase=Released policy=Recycle";
        let mut view = volume_view(words, None);
        let found = pod.is_some().then_some("u");
        view.live = Some(Live { recycler: Some(recycler(pod, found)), ..live(words) });
        assert_eq!(of_volume(&view, &outcome), want, "{case}");
    }
}
