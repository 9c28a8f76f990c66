//! What is done about a volume, and who removes it.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_client::Verb;
use flyball_runtime::plan::Failure;
use flyball_runtime::{Outcome, Plan};
use serde_json::{Value, json};

use super::results::failed;
use super::world::{claim, volume};
use crate::binder::invariants::check_volume;
use crate::binder::plugins::{Deleter, deleter};
use crate::binder::reclaim::{Live, RecyclerPod, after_failure, deletion_plugin, emptied, is_recycled};
use crate::binder::volume::{self, Need, Step, View, may_reclaim, need, step};
use crate::binder::writes::Tag;

/// The view of a volume whose claim was read from the server.
pub(super) fn view(words: &str, claimed: Option<&str>) -> View {
    View {
        volume: Arc::new(volume(words)),
        cached: claimed.map(|words| Arc::new(claim(words))),
        live_claim: Some(None),
        class: None,
        live: None,
        removed: None,
        is_deletion_requested: false,
        is_backing_off: false,
    }
}

/// The plan, which every test checks.
fn plan(view: &View) -> Plan<Tag> {
    let plan = volume::plan(view);
    assert_eq!(check_volume(view, &plan), Ok(()));
    plan
}

fn planned(words: &str, claimed: Option<&str>) -> &'static str {
    match step(&view(words, claimed)) {
        Step::SetPhase(phase) => phase,
        Step::SyncClaim => "ask the claim",
        Step::Mismatch { .. } => "mismatch",
        Step::Free => "free",
        Step::Release => "release",
        Step::Reclaim => "reclaim",
        Step::Migrate(_) => "migrate",
        Step::ReadClaim(_) => "read the claim",
    }
}

#[test]
fn a_volume_follows_its_claim() {
    #[rustfmt::skip]
    let table = [
        // case                                volume                       claim                  step
        ("of no claim",                        "a phase=Pending",           None,                  "Available"),
        ("promised by name",                   "a for=c",                   None,                  "Available"),
        ("bound",                              "a of=c",                    Some("c names=a"),     "Bound"),
        ("its claim is gone",                  "a of=c phase=Bound",        None,                  "release"),
        ("and users see that",                 "a of=c phase=Released",     None,                  "reclaim"),
        ("and reclaiming has failed",          "a of=c phase=Failed",       None,                  "reclaim"),
        ("its claim does not know yet",        "a of=c",                    Some("c"),             "ask the claim"),
        ("its claim wants blocks",             "a of=c",                    Some("c block"),       "mismatch"),
        ("its claim has another",              "a of=c ours",               Some("c names=b"),     "free"),
        ("another, and a user promised it",    "a of=c",                    Some("c names=b"),     "free"),
        ("another, and provisioned for it",   "a of=c made=x policy=Delete", Some("c names=b"),   "release"),
        ("provisioned, but to be kept",        "a of=c made=x",             Some("c names=b"),     "free"),
    ];
    for (case, words, claim, want) in table {
        assert_eq!(planned(words, claim), want, "{case}");
    }
}

#[test]
fn only_a_volume_without_its_claim_is_recycled_or_deleted() {
    #[rustfmt::skip]
    let table = [
        ("a",         None,                false),
        ("a for=c",   None,                false),
        ("a of=c",    None,                true),
        ("a of=c",    Some("c names=a"),   false),
        ("a of=c",    Some("c"),           false),
        ("a of=c",    Some("c names=b"),   true),
        ("a of=old",  Some("c names=a"),   true),
    ];
    for (words, claimed, want) in table {
        assert_eq!(may_reclaim(&volume(words), claimed.map(claim).as_ref()), want, "{words} {claimed:?}");
    }
}

#[test]
fn the_provisioner_of_a_volume_deletes_its_storage() {
    let path = || Deleter::HostPath(Some("/tmp/a".into()));
    let error = |why: &str| Err(format!("error getting deleter volume plugin for volume \"a\": {why}"));
    #[rustfmt::skip]
    let table = [
        // case                     made by                    source                                          deleter
        ("a directory",             "",                        json!({"hostPath": {"path": "/tmp/a"}}),        Ok(path())),
        ("a directory made here",   "kubernetes.io/host-path", json!({"hostPath": {"path": "/tmp/a"}}),        Ok(path())),
        ("made outside",            "csi.example.com",         json!({"hostPath": {"path": "/tmp/a"}}),        Ok(Deleter::External)),
        ("a driver's",              "",                        json!({"csi": {"driver": "d"}}),                Ok(Deleter::External)),
        ("a share",                 "",                        json!({"nfs": {"server": "s"}}),                error("no deletable volume plugin matched")),
        ("a disk of a node",        "",                        json!({"local": {"path": "/d"}}),               error("no volume plugin matched")),
        ("a plugin that is gone",   "kubernetes.io/flocker",   json!({"local": {"path": "/d"}}),               Err("no volume plugin matched name: kubernetes.io/flocker".into())),
        ("a share made here",       "kubernetes.io/nfs",       json!({"nfs": {"server": "s"}}),                Err("no deletable volume plugin matched".into())),
    ];
    for (case, made, source, want) in table {
        let words = if made.is_empty() { "a".to_owned() } else { format!("a made={made}") };
        let mut volume = volume(&words);
        volume.spec = volume
            .spec
            .edited(|spec| {
                let fields = source.as_object().unwrap().clone();
                spec.as_object_mut().unwrap().extend(fields);
            })
            .unwrap();
        assert_eq!(deleter(&volume), want, "{case}");
    }
}

#[test]
fn the_server_is_asked_before_a_claim_counts_as_gone() {
    #[rustfmt::skip]
    let table = [
        // case                      volume                    cached             claim is read
        ("in the cache",             "a of=c",                 Some("c names=a"), false),
        ("not in the cache",         "a of=c phase=Bound",     None,              true),
        ("another of the name",      "a of=old phase=Bound",   Some("c"),         true),
        ("released already",         "a of=c phase=Released",  None,              false),
        ("released, another came",   "a of=old phase=Released",Some("c"),         true),
        ("promised by name",         "a for=c",                None,              false),
    ];
    for (case, words, cached, is_read) in table {
        let mut view = view(words, cached);
        view.live_claim = None;
        assert_eq!(matches!(need(&view), Some(Need::Claim(_))), is_read, "{case}");
    }
    let mut found = view("a of=c phase=Bound", None);
    found.live_claim = Some(Some(Arc::new(claim("c names=a"))));
    assert_eq!(step(&found), Step::SetPhase("Bound"));
}

#[test]
fn a_plan_has_the_writes_in_order_and_the_events_of_a_volume() {
    let cause = "due to incompatible volumeMode.";
    #[rustfmt::skip]
    let table = [
        ("a phase=Pending",       None,              "update PersistentVolume/status a: it is Available".to_owned()),
        ("a",                     None,              String::new()),
        ("a of=c phase=Bound",    None,              "update PersistentVolume/status a: it is Released".to_owned()),
        ("a of=c ours",           Some("c names=b"), "update PersistentVolume a: no claim has it any more".to_owned()),
        ("a of=c ours phase=Bound", Some("c names=b"), "update PersistentVolume a: no claim has it any more\nupdate PersistentVolume/status a: it is Available".to_owned()),
        ("a of=c",                Some("c"),         "waiting for PersistentVolumeClaim/ns/c to be bound to the volume".to_owned()),
        ("a of=c",                Some("c block"),   format!("event Warning VolumeMismatch: Cannot bind PersistentVolume to requested PersistentVolumeClaim \"c\" {cause}\nevent Warning VolumeMismatch: Cannot bind PersistentVolume \"a\" to requested PersistentVolumeClaim {cause} (PersistentVolumeClaim c)")),
        ("a of=c phase=Released", None,              String::new()),
        ("a of=c phase=Released policy=Odd", None,   "update PersistentVolume/status a: it is Failed\n  then event Warning VolumeUnknownReclaimPolicy: Volume has unrecognized PersistentVolumeReclaimPolicy".to_owned()),
        ("a of=c phase=Failed policy=Odd", None,     String::new()),
        ("a of=c phase=Released policy=Delete made=csi.example.com", None, "waiting for PersistentVolume/a to be reclaimed by its external provisioner".to_owned()),
        ("a of=c phase=Released policy=Delete",      None, "update PersistentVolume/status a: it is Failed\n  then event Warning VolumeFailedDelete: error getting deleter volume plugin for volume \"a\": no volume plugin matched".to_owned()),
    ];
    for (words, claimed, want) in table {
        assert_eq!(plan(&view(words, claimed)).to_string(), want, "{words} {claimed:?}");
    }
}

pub(super) fn live(words: &str) -> Live {
    Live { volume: Some(with_path(words)), claim: None, pods: vec![], recycler: None }
}

fn with_path(words: &str) -> flyball_api::PersistentVolume {
    let mut volume = volume(words);
    volume.spec = volume.spec.edited(|spec| spec["hostPath"] = json!({"path": "/tmp/a"})).unwrap();
    volume
}

#[test]
fn a_host_path_volume_is_deleted_after_its_directory() {
    let words = "a of=c phase=Released policy=Delete";
    let mut view = view(words, None);
    view.volume = Arc::new(with_path(words));
    assert_eq!(deletion_plugin(&view), Some("kubernetes.io/host-path"));
    view.is_backing_off = true;
    assert_eq!((need(&view), plan(&view).to_string().as_str()), (None, ""), "it failed a short time ago");
    view.is_backing_off = false;
    assert_eq!(need(&view), Some(Need::Volume));
    view.live = Some(Live { claim: Some(Arc::new(claim("c names=a"))), ..live(words) });
    assert_eq!((need(&view), plan(&view).to_string().as_str()), (None, ""), "a claim has it again");
    view.live = Some(Live { volume: None, ..live(words) });
    assert_eq!((need(&view), plan(&view).to_string().as_str()), (None, ""), "it is gone");
    view.live = Some(live(words));
    assert_eq!(need(&view), Some(Need::Removal(Some("/tmp/a".into()))));
    view.removed = Some(Err("busy".into()));
    assert_eq!(need(&view), None);
    assert_eq!(
        plan(&view).to_string(),
        "update PersistentVolume/status a: it is Failed\n  then event Warning VolumeFailedDelete: busy"
    );
    view.removed = Some(Ok(()));
    assert_eq!(plan(&view).to_string(), "delete PersistentVolume a: its storage was deleted");
    let after = |reason: &str| after_failure(&view, &failed(Tag::Other, Verb::Update, reason));
    assert_eq!(
        after("Forbidden").map(|writes| Plan::of(writes).to_string()).as_deref(),
        Some(
            "update PersistentVolume/status a: it is Failed\n  then event Warning VolumeFailedDelete: \
             persistent volume controller can't update finalizer: Forbidden"
        )
    );
    assert!(after("Conflict").is_none(), "it is tried again");
    let mut kept = live(words);
    kept.volume.as_mut().unwrap().metadata.finalizers = ["kubernetes.io/pv-controller".into()].into();
    view.live = Some(kept);
    assert_eq!(
        plan(&view).to_string(),
        "update PersistentVolume a: its storage was deleted\ndelete PersistentVolume a: its storage was deleted"
    );
    view.live = Some(live("a of=c phase=Released policy=Delete going"));
    assert_eq!(plan(&view).to_string(), "", "others keep it, and its deletion was requested");
}

#[test]
fn a_plan_for_another_state_of_the_volume_breaks_an_invariant() {
    let words = "a of=c phase=Released policy=Delete";
    let deletion = || View {
        volume: Arc::new(with_path(words)),
        live: Some(live(words)),
        removed: Some(Ok(())),
        ..view(words, None)
    };
    let deleted = plan(&deletion());
    let wrong =
        |view: View| check_volume(&view, &deleted).unwrap_err().split(": ").next().unwrap().to_owned();
    let claimed = Some(Some(Arc::new(claim("c names=a"))));
    assert_eq!(
        wrong(View { live_claim: claimed, ..deletion() }),
        "a volume is not deleted while a claim has it"
    );
    let claimed = Some(Live { claim: Some(Arc::new(claim("c names=a"))), ..live(words) });
    assert_eq!(wrong(View { live: claimed, ..deletion() }), "a volume is not deleted while a claim has it");
    assert_eq!(wrong(View { removed: None, ..deletion() }), "a volume is deleted after its storage");
    assert_eq!(wrong(View { live: None, ..deletion() }), "a volume is deleted by its uid");
    let kept = Arc::new(with_path("a of=c phase=Released policy=Retain"));
    assert_eq!(wrong(View { volume: kept, ..deletion() }), "a volume is deleted if its policy says so");
}

pub(super) fn recycler(found: Option<Value>, created: Option<&str>) -> RecyclerPod {
    RecyclerPod {
        manifest: json!({"metadata": {"namespace": "default", "name": "recycler-for-a"}}),
        key: flyball_api::Key::new("default", "recycler-for-a"),
        found: found.map(|pod| Arc::new(serde_json::from_value(pod).unwrap())),
        created: created.map(Into::into),
        is_emptied: false,
    }
}

#[test]
fn a_pod_that_empties_a_volume_breaks_an_invariant_while_the_volume_is_in_use() {
    let words = "a of=c phase=Released policy=Recycle ours";
    let with = |live: Live| View {
        live: Some(Live { recycler: Some(recycler(None, None)), ..live }),
        ..view(words, None)
    };
    let created = plan(&with(live(words)));
    let wrong =
        |view: View| check_volume(&view, &created).unwrap_err().split(": ").next().unwrap().to_owned();
    let pod = json!({"metadata": {"namespace": "ns", "name": "p"}, "status": {"phase": "Running"}});
    let pods = vec![Arc::new(serde_json::from_value(pod).unwrap())];
    assert_eq!(wrong(with(Live { pods, ..live(words) })), "a volume is not emptied while a pod uses it");
    let claim = Some(Arc::new(claim("c names=a")));
    assert_eq!(wrong(with(Live { claim, ..live(words) })), "a volume is not emptied while a claim has it");
    let kept = Arc::new(volume("a of=c phase=Released policy=Retain"));
    let kept = View { volume: kept, ..with(live(words)) };
    assert_eq!(wrong(kept), "a volume is emptied if its policy says so");
    let released = plan(&view("a of=c phase=Bound", None));
    let claimed = view("a of=c phase=Bound", Some("c names=a"));
    let claimed = View { live_claim: None, ..claimed };
    let wrong = check_volume(&claimed, &released).unwrap_err();
    assert!(wrong.starts_with("a volume is not released while a claim has it"), "{wrong}");
}

#[test]
fn a_volume_is_recycled_by_a_pod_that_this_process_has_created() {
    let words = "a of=c phase=Released policy=Recycle ours";
    let pod = |phase: &str, uid: &str| {
        let metadata = json!({"namespace": "default", "name": "recycler-for-a", "uid": uid});
        Some(json!({"metadata": metadata, "status": {"phase": phase}}))
    };
    let failed = |why: &str| {
        format!(
            "update PersistentVolume/status a: it is Failed\n  then event Warning VolumeFailedRecycle: Recycle failed: {why}"
        )
    };
    let dismiss = "delete Pod default/recycler-for-a: it has ended, or is not trusted";
    #[rustfmt::skip]
    let table = [
        // case              pod                      created      plan                                                                                       forgotten
        ("absent",           None,                    None,        "create Pod default/recycler-for-a: a released volume is to be emptied".to_owned(),        false),
        ("runs",             pod("Running", "u"),     Some("u"),   "waiting for Pod/default/recycler-for-a to finish".to_owned(),                             false),
        ("failed",           pod("Failed", "u"),      Some("u"),   format!("{}\n{dismiss}", failed("failed to recycle volume: pod failed, pod.Status.Message unknown")), true),
        ("deleted",          None,                    Some("u"),   failed("failed to recycle volume: recycler pod was deleted"),                              true),
        ("not ours",         pod("Succeeded", "x"),   Some("u"),   format!("{}\n{dismiss}", failed("old recycler pod found, will retry later")),              true),
        ("of before",        pod("Succeeded", "u"),   None,        format!("{}\n{dismiss}", failed("old recycler pod found, will retry later")),              true),
        ("succeeded",        pod("Succeeded", "u"),   Some("u"),   format!("{dismiss}\nevent Normal VolumeRecycled: Volume recycled\nupdate PersistentVolume a: no claim has it any more\nupdate PersistentVolume/status a: it is Available"), true),
    ];
    for (case, found, created, want, is_over) in table {
        let mut view = view(words, None);
        assert_eq!(need(&view), Some(Need::Volume), "{case}");
        view.live = Some(Live { recycler: Some(recycler(found, created)), ..live(words) });
        assert_eq!((need(&view), plan(&view).to_string()), (None, want), "{case}");
        assert_eq!(is_recycled(&view), is_over, "{case}");
        assert_eq!(emptied(&view).is_some(), case == "succeeded", "{case}");
    }
}

#[test]
fn a_volume_that_was_emptied_is_freed_without_another_pod() {
    let words = "a of=c phase=Released policy=Recycle ours";
    let pod = |phase: &str, uid: &str| {
        let metadata = json!({"namespace": "default", "name": "recycler-for-a", "uid": uid});
        Some(json!({"metadata": metadata, "status": {"phase": phase}}))
    };
    let free = "update PersistentVolume a: no claim has it any more\nupdate PersistentVolume/status a: it is Available";
    for (case, found) in [("the pod is gone", None), ("another pod of the name", pod("Running", "x"))] {
        let mut view = view(words, None);
        let recycler = RecyclerPod { is_emptied: true, ..recycler(found, Some("u")) };
        view.live = Some(Live { recycler: Some(recycler), ..live(words) });
        assert_eq!(plan(&view).to_string(), free, "{case}");
        assert!(is_recycled(&view) && emptied(&view).is_some(), "{case}");
    }
}

#[test]
fn a_volume_that_cannot_be_recycled_says_why() {
    let words = "a of=c phase=Released policy=Recycle";
    let mut view = view(words, None);
    view.live = Some(live(words));
    assert_eq!(
        plan(&view).to_string(),
        "update PersistentVolume/status a: it is Failed\n  \
         then event Warning VolumeFailedRecycle: No recycler plugin found for the volume!"
    );
    let pod = |name: &str, phase: &str| -> Arc<Pod> {
        let pod = json!({"metadata": {"namespace": "ns", "name": name}, "status": {"phase": phase}});
        Arc::new(serde_json::from_value(pod).unwrap())
    };
    let pods = vec![pod("q", "Running"), pod("p", "Pending"), pod("ended", "Succeeded")];
    view.live = Some(Live { pods, recycler: Some(recycler(None, None)), ..live(words) });
    assert_eq!(
        plan(&view).to_string(),
        "event Normal VolumeFailedRecycle: Volume is used by pods: ns/p,ns/q\n\
         waiting for PersistentVolume/a to be used by no pod"
    );
    view.live = Some(Live { recycler: Some(recycler(None, None)), ..live(words) });
    let failure = Failure {
        tag: Some(Tag::Pod),
        verb: None,
        doing: String::new(),
        message: "quota".into(),
        error: None,
        retry: flyball_runtime::Retry::Backoff,
        is_expected: false,
    };
    let after = after_failure(&view, &Outcome { done: vec![], failures: vec![failure] }).unwrap();
    assert_eq!(
        Plan::of(after).to_string(),
        "update PersistentVolume/status a: it is Failed\n  then event Warning VolumeFailedRecycle: \
         Recycle failed: unexpected error creating recycler pod:  quota"
    );
    assert!(after_failure(&view, &Outcome::default()).is_none());
    view.live = None;
    assert_eq!(need(&view), Some(Need::Volume));
    view.is_backing_off = true;
    assert_eq!((need(&view), plan(&view).to_string().as_str()), (None, ""), "it failed a short time ago");
}
