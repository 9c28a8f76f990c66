use std::time::Duration;

use flyball_api::node::AttachedVolume;
use flyball_api::{Node, VolumeAttachment};
use flyball_runtime::Outcome;
use flyball_runtime::plan::{Answer, Done};
use proptest::prelude::*;
use serde_json::json;

use super::super::place::{Force, NodeState, Place, UNMOUNT_TIMEOUT};
use super::super::plan::{View, attempts, plan, refusal, to_confirm};
use super::super::report::{self, Entry, report};
use super::super::steps::{Step, steps};
use super::super::wants::Want;
use super::super::{invariants, messages};
use super::{attachment, pod, want};

/// Places as words: `node:word,word …`.
struct Scene {
    nodes: Vec<(String, Vec<String>)>,
    want: Want,
    found: Vec<Option<VolumeAttachment>>,
}

impl Scene {
    fn new(text: &str, has_driver: bool, mode: &str) -> Self {
        let node = |place: &str| {
            let (node, words) = place.split_once(':').unwrap();
            (node.to_owned(), words.split(',').map(str::to_owned).collect::<Vec<_>>())
        };
        let nodes: Vec<_> = text.split_whitespace().map(node).collect();
        let found = |words: &Vec<String>| {
            let has = |word: &str| words.iter().any(|known| known == word);
            let error = has("error").then_some("no such disk");
            (has("asked") || has("attached") || has("deleting"))
                .then(|| attachment(has("attached"), has("deleting"), error))
        };
        let found = nodes.iter().map(|(_, words)| found(words)).collect();
        Self { nodes, want: want(has_driver, mode), found }
    }

    fn view(&self, forces: bool) -> View<'_> {
        View { places: self.places(), forces }
    }

    fn places(&self) -> Vec<Place<'_>> {
        self.nodes
            .iter()
            .zip(&self.found)
            .map(|((node, words), found)| {
                let has = |word: &str| words.iter().any(|known| known == word);
                Place {
                    node,
                    want: has("wanted").then_some(&self.want),
                    attachment: found.as_ref(),
                    is_reported: has("reported"),
                    was_reported: has("known"),
                    is_admitted: has("admitted"),
                    state: NodeState {
                        is_mounted: has("mounted"),
                        is_healthy: !has("unhealthy"),
                        is_out_of_service: has("out"),
                    },
                    unwanted_for: if has("long") {
                        UNMOUNT_TIMEOUT + Duration::from_secs(1)
                    } else {
                        Duration::ZERO
                    },
                    attaching_for: if has("slow") { Duration::from_secs(120) } else { Duration::ZERO },
                    has_failed: has("failed"),
                    is_backing_off: has("backoff"),
                    is_detaching: has("detaching"),
                    is_announced: has("announced"),
                    is_unmanaged: has("unmanaged"),
                    is_deleted: has("gone"),
                    refusal: has("refused").then(|| "in use".to_owned()),
                }
            })
            .collect()
    }
}

fn words(step: &Step<'_>) -> String {
    match step {
        Step::Attach(node) => format!("attach {node}"),
        Step::AllowNodeAttach(node) => format!("admit {node}"),
        Step::Report(node) => format!("report {node}"),
        Step::Detach(node, None) => format!("detach {node}"),
        Step::Detach(node, Some(Force::Timeout)) => format!("force {node} late"),
        Step::Detach(node, Some(Force::OutOfService)) => format!("force {node} out"),
        Step::AttachFailed(node, why) => format!("failed {node}: {why}"),
        Step::DetachFailed(node, why) => format!("stuck {node}: {why}"),
        Step::WarnHeldElsewhere(node) => format!("held {node}"),
        Step::Wait(delay) => format!("wait {}", delay.as_secs()),
    }
}

#[test]
fn a_disk_goes_where_it_is_wanted() {
    const ONCE: &str = "ReadWriteOnce";
    #[rustfmt::skip]
    let table = [
        // places                                            mode             steps
        ("n1:wanted",                                        ONCE,            "attach n1"),
        ("n1:wanted,asked",                                  ONCE,            "wait 120"),
        ("n1:wanted,asked,slow",                             ONCE,            "failed n1: timed out waiting for external-attacher of d.example CSI driver to attach volume h"),
        ("n1:wanted,asked,error",                            ONCE,            "failed n1: no such disk"),
        ("n1:wanted,asked,error,backoff",                    ONCE,            ""),
        ("n1:wanted,backoff",                                ONCE,            ""),
        ("n1:wanted,attached",                               ONCE,            "report n1"),
        ("n1:wanted,attached,reported",                      ONCE,            ""),
        ("n1:wanted,reported",                               ONCE,            "report n1"),
        ("n1:wanted,asked,reported",                         ONCE,            "report n1"),
        ("n1:wanted,deleting",                                  ONCE,            "failed n1: volume attachment is being deleted"),
        ("n1:wanted,attached,deleting",                         ONCE,            "failed n1: volume attachment is being deleted"),
        ("n1:wanted,attached,deleting,reported",                ONCE,            ""),
        // one node only
        ("n1:wanted n2:wanted",                              ONCE,            "attach n1"),
        ("n1:wanted,asked n2:wanted",                        ONCE,            "wait 120"),
        ("n1:asked n2:wanted",                               ONCE,            "detach n1"),
        ("n1:asked,mounted n2:wanted",                       ONCE,            "held n2"),
        ("n1:asked,backoff n2:wanted",                       ONCE,            ""),
        ("n1:asked,error n2:wanted",                         ONCE,            "detach n1; held n2"),
        ("n1:asked,unmanaged n2:wanted",                         ONCE,            ""),
        ("n1:attached,unmanaged n2:wanted",                      ONCE,            "held n2"),
        ("n1:reported,unmanaged n2:wanted",                      ONCE,            "held n2"),
        ("n1:mounted n2:wanted",                             ONCE,            "attach n2"),
        ("n1:wanted n2:wanted,asked,error",                  ONCE,            "held n1; failed n2: no such disk"),
        ("n1:wanted,asked,error n2:wanted,asked",            ONCE,            "failed n1: no such disk; wait 120"),
        ("n1:wanted,attached,reported n2:wanted",            ONCE,            "held n2"),
        ("n1:attached,reported,mounted n2:wanted",           ONCE,            "held n2"),
        ("n1:attached,reported n2:wanted",                   ONCE,            "report n1; held n2"),
        ("n1:attached n2:wanted",                            ONCE,            "detach n1; held n2"),
        ("n1:attached,refused n2:wanted,announced",          ONCE,            "stuck n1: in use"),
        ("n1:deleting n2:wanted",                               ONCE,            ""),
        ("n1:deleting,attached n2:wanted",                      ONCE,            ""),
        ("n1:deleting,error n2:wanted",                         ONCE,            "stuck n1: no such disk; held n2"),
        ("n1:deleting,error,attached n2:wanted",                ONCE,            "stuck n1: no such disk; held n2"),
        ("n1:wanted n2:wanted",                              "ReadWriteMany", "attach n1; attach n2"),
        ("n1:wanted,attached,reported n2:wanted",            "ReadOnlyMany",  "attach n2"),
        // a deleted node keeps its disks while it has pods, and gets no others
        ("n1:wanted,attached,gone",                          ONCE,            ""),
        ("n1:wanted,attached,gone n2:wanted",                ONCE,            "held n2"),
        ("n1:wanted,asked,error,gone",                       ONCE,            ""),
        ("n1:wanted,gone",                                   ONCE,            ""),
        ("n1:attached,gone n2:wanted,announced",             ONCE,            "detach n1"),
        // away
        ("n1:asked",                                         ONCE,            "detach n1"),
        ("n1:asked,backoff",                                 ONCE,            ""),
        ("n1:attached,reported",                             ONCE,            "report n1"),
        ("n1:attached,reported,mounted",                     ONCE,            ""),
        ("n1:attached,mounted,unhealthy",                          ONCE,            "wait 360"),
        ("n1:attached,mounted,unhealthy,long",                     ONCE,            "force n1 late"),
        ("n1:attached,mounted,long",                         ONCE,            ""),
        ("n1:attached,long",                                 ONCE,            "force n1 late"),
        ("n1:attached,mounted,unhealthy,out",                      ONCE,            "force n1 out"),
        ("n1:attached,reported,mounted,out",                 ONCE,            "report n1"),
        ("n1:deleting",                                         ONCE,            ""),
        ("n1:deleting,error",                                   ONCE,            "stuck n1: no such disk"),
        ("n1:deleting,error,failed",                            ONCE,            "detach n1"),
        ("n1:deleting,error,failed,backoff",                    ONCE,            ""),
    ];
    for (places, mode, want) in table {
        let scene = Scene::new(places, true, mode);
        let view = scene.view(true);
        assert_eq!(view.steps().iter().map(words).collect::<Vec<_>>().join("; "), want, "{places} {mode}");
        assert_eq!(invariants::check(&view), Ok(()), "{places} {mode}");
    }
}

#[test]
fn steps_become_writes_and_events_for_pods() {
    const ATTACHMENT: &str = "csi-63be88ea8a6a05dbc6d1d44e55b2b8a3d6c1ed3d7ff2cb8a6ac3bc4c1f3a53c9";
    let held = "Volume is already used by pod(s) app";
    let event = |message: &str| format!("event Warning FailedAttachVolume: {message} (Pod app)");
    let failed = |why: &str| event(&format!("AttachVolume.Attach failed for volume \"pv\" : {why}"));
    #[rustfmt::skip]
    let table = [
        // places                                      plan
        ("n1:wanted,attached,reported",                String::new()),
        ("n1:wanted",                                  format!("each\n  create VolumeAttachment {ATTACHMENT}: 1 pods on node n1 want volume pv\n    else {}", failed("kubernetes.io/csi: attacher.Attach failed: <error>"))),
        ("n1:wanted,asked",                            "again after 120s\nwaiting for VolumeAttachment/csi-x to be attached by its driver".to_owned()),
        ("n1:wanted,asked,error",                      format!("each\n  {}\nwaiting for VolumeAttachment/csi-x to be attached by its driver", failed("no such disk"))),
        ("n1:wanted,attached,reported n2:wanted",      format!("each\n  {}", event(&format!("Waiting for detach for volume \"pv\" {held}")))),
        ("n1:wanted,attached,reported n2:wanted,announced", String::new()),
        ("n1:attached,reported,mounted n2:wanted n3:wanted,announced", format!("each\n  {}\nwaiting for Node/n1 to unmount the disk", event("Waiting for detach for volume \"pv\" Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node"))),
        ("n1:attached",                                "each\n  delete VolumeAttachment csi-x: no pod on node n1 uses the disk".to_owned()),
        ("n1:attached,refused",                        String::new()),
        ("n1:attached,mounted,unhealthy,out",          "each\n  delete VolumeAttachment csi-x: no pod on node n1 uses the disk; the node is out of service".to_owned()),
        ("n1:attached,mounted,unhealthy,long",         "each\n  delete VolumeAttachment csi-x: no pod on node n1 uses the disk; the node did not unmount it in time".to_owned()),
        ("n1:attached,reported,mounted",               "waiting for Node/n1 to unmount the disk".to_owned()),
        ("n1:deleting",                                "waiting for VolumeAttachment/csi-x to be detached by its driver".to_owned()),
    ];
    for (places, want) in table {
        let scene = Scene::new(places, true, "ReadWriteOnce");
        let name = scene.want.disk.driver().unwrap().attachment("n1");
        assert_eq!(plan(&scene.view(true)).to_string().replace(name.as_str(), ATTACHMENT), want, "{places}");
    }
}

#[test]
fn the_server_is_asked_before_a_disk_is_detached_without_force() {
    #[rustfmt::skip]
    let table = [
        ("n1:attached",                        "n1"),
        ("n1:attached n2:asked",               "n1 n2"),
        ("n1:attached,mounted,unhealthy,out",  ""),
        ("n1:wanted",                          ""),
    ];
    for (places, want) in table {
        let scene = Scene::new(places, true, "ReadWriteOnce");
        assert_eq!(to_confirm(&scene.view(true)).join(" "), want, "{places}");
    }
    let disk = want(true, "ReadWriteOnce").disk.name;
    let mut found = node("n1", vec![]);
    assert_eq!(refusal(&Ok(found.clone()), &disk), None);
    let reported = refusal(&Ok(node("n1", vec![named(&disk)])), &disk);
    assert_eq!(reported.as_deref(), Some("the disk may be used by the node, according to its status"));
    found.status.volumes_in_use = vec![disk.clone()].into_iter().collect();
    let mounted = refusal(&Ok(found), &disk);
    assert_eq!(mounted.as_deref(), Some("the disk is still in use by the node, according to its status"));
}

#[test]
fn attempts_end_by_failure_or_by_a_detach() {
    let ended = |places: &str| {
        let scene = Scene::new(places, true, "ReadWriteOnce");
        let view = scene.view(true);
        let done = plan(&view).writes().iter().map(|write| write.tag).collect::<Vec<_>>();
        let done = done.into_iter().map(|tag| Done { tag, answer: Answer::Written(None) }).collect();
        let ended = attempts(&view, &Outcome { done, failures: vec![] });
        let words: Vec<_> =
            ended.iter().map(|of| format!("{} {} {:?}", of.node, of.is_detach, of.error)).collect();
        words.join("; ")
    };
    assert_eq!(ended("n1:wanted"), "", "the driver has yet to attach it");
    assert_eq!(ended("n1:attached"), "n1 true None");
    assert_eq!(ended("n1:attached,refused"), "n1 true Some(\"in use\")");
    assert_eq!(ended("n1:deleting,error,failed"), "n1 true Some(\"no such disk\")", "its error still stands");
    assert_eq!(ended("n1:wanted,asked,error"), "n1 false Some(\"no such disk\")");
}

#[test]
fn without_force_a_node_keeps_what_it_has_mounted() {
    let scene = Scene::new(
        "n1:attached,mounted,unhealthy,long n2:attached,mounted,unhealthy,out",
        true,
        "ReadWriteOnce",
    );
    let steps: Vec<String> = steps(&scene.places(), false).iter().map(words).collect();
    assert_eq!(steps, ["force n2 out"]);
}

#[test]
fn a_node_attaches_some_disks_by_itself() {
    #[rustfmt::skip]
    let table = [
        ("n1:wanted",                        "admit n1"),
        ("n1:wanted,admitted",               "report n1"),
        ("n1:wanted,admitted,reported",      ""),
        ("n1:wanted n2:wanted",              "admit n1"),
        ("n1:wanted,admitted n2:wanted",     "report n1; held n2"),
        ("n1:reported n2:wanted",            "report n1; held n2"),
        ("n1:reported,mounted",              ""),
    ];
    for (places, want) in table {
        let scene = Scene::new(places, false, "ReadWriteOnce");
        let steps: Vec<String> = steps(&scene.places(), true).iter().map(words).collect();
        assert_eq!(steps.join("; "), want, "{places}");
    }
}

#[test]
fn the_status_of_a_node_names_what_is_attached() {
    #[rustfmt::skip]
    let table = [
        // place                              driven  list after; None: as it is
        ("n1:wanted,attached",                true,   Some("disk")),
        ("n1:wanted,attached,reported",       true,   None),
        ("n1:wanted,asked",                   true,   None),
        ("n1:wanted,asked,reported",          true,   Some("")),
        ("n1:wanted,reported",                true,   Some("")),
        ("n1:wanted,attached,deleting",          true,   None),
        ("n1:wanted,attached,detaching",        true,   None),
        ("n1:attached,reported",              true,   Some("")),
        ("n1:attached,reported,mounted",      true,   None),
        ("n1:attached,reported,mounted,out",  true,   Some("")),
        ("n1:attached,reported,mounted,long", true,   None),
        ("n1:reported,mounted",               true,   Some("")),
        ("n1:attached",                       true,   None),
        ("n1:wanted",                         false,  None),
        ("n1:wanted,admitted",                false,  Some("disk")),
        ("n1:wanted,reported",                false,  None),
        ("n1:reported,mounted",               false,  None),
        ("n1:reported",                       false,  Some("")),
    ];
    for (places, has_driver, want) in table {
        let scene = Scene::new(places, has_driver, "ReadWriteOnce");
        let place = scene.places().remove(0);
        let disk = scene.want.disk.name.clone();
        let node = node("n1", if place.is_reported { vec![named(&disk)] } else { vec![] });
        let view = report::View { node: &node, entries: vec![Entry { disk: &disk, place }], forces: true };
        let want = want.map(|list| if list.is_empty() { vec![] } else { vec![named(&disk)] });
        assert_eq!(report(&view).map(|report| report.volumes), want, "{places}");
    }
}

#[test]
fn an_unknown_disk_stays_on_the_list() {
    let node = node("n1", vec![named("kubernetes.io/other/x")]);
    assert_eq!(report(&report::View { node: &node, entries: vec![], forces: true }), None);
}

#[test]
fn a_report_patches_the_status_and_then_emits_events() {
    let scene = Scene::new("n1:wanted,attached", true, "ReadWriteOnce");
    let (node, disk) = (node("n1", vec![]), scene.want.disk.name.clone());
    let entries = vec![Entry { disk: &disk, place: scene.places().remove(0) }];
    let plan = report::plan(&report::View { node: &node, entries, forces: true });
    assert_eq!(
        plan.to_string(),
        "patch Node/status n1: 1 disks are attached\n  \
         then event Normal SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume \"pv\"  (Pod app)"
    );
    let body = plan.writes()[0].body().unwrap();
    assert_eq!(body["status"]["volumesAttached"][0]["name"], disk.as_str());

    let scene = Scene::new("n1:wanted,attached,known", true, "ReadWriteOnce");
    let entries = vec![Entry { disk: &disk, place: scene.places().remove(0) }];
    let plan = report::plan(&report::View { node: &node, entries, forces: true });
    assert_eq!(
        plan.to_string(),
        "patch Node/status n1: 1 disks are attached",
        "the node was registered anew"
    );
}

#[test]
fn an_event_names_the_pods_that_have_the_disk() {
    let disk = want(true, "ReadWriteOnce").disk;
    let waiting = pod("a", "new");
    #[rustfmt::skip]
    let table = [
        (vec![],                                       "Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node"),
        (vec![pod("a", "x"), pod("a", "y")],           "Volume is already used by pod(s) x, y"),
        (vec![pod("a", "x"), pod("b", "y")],           "Volume is already used by pod(s) x and 1 pod(s) in different namespaces"),
        (vec![pod("b", "x"), pod("c", "y")],           "Volume is already used by 2 pod(s) in different namespaces"),
    ];
    for (holders, want) in table {
        let message = messages::held(&disk, &waiting, &holders);
        assert_eq!(message, format!("Waiting for detach for volume \"pv\" {want}"));
    }
}

const WORDS: [&str; 17] = [
    "gone",
    "wanted",
    "asked",
    "attached",
    "deleting",
    "error",
    "reported",
    "mounted",
    "unhealthy",
    "out",
    "long",
    "slow",
    "failed",
    "backoff",
    "unmanaged",
    "announced",
    "refused",
];

proptest! {
    #[test]
    fn whatever_the_places_the_invariants_hold(
        nodes in prop::collection::vec(prop::sample::subsequence(WORDS.to_vec(), 0..=WORDS.len()), 1..4),
        has_driver: bool,
        is_shared: bool,
        forces: bool,
    ) {
        let text: Vec<String> =
            nodes.iter().enumerate().map(|(n, words)| format!("n{n}:{}", words.join(","))).collect();
        let mode = if is_shared { "ReadWriteMany" } else { "ReadWriteOnce" };
        let scene = Scene::new(&text.join(" "), has_driver, mode);
        prop_assert_eq!(invariants::check(&scene.view(forces)), Ok(()));
    }
}

#[test]
fn a_disk_for_one_node_is_on_one_whatever_state_its_requests_are_in() {
    let volume = |mode: &str| {
        super::volume(json!({"csi": {"driver": "d.example", "volumeHandle": "h"}, "accessModes": [mode]}))
    };
    let asked = |node: &str, is_attached: bool, is_deleting: bool| {
        let mut made = serde_json::to_value(attachment(is_attached, is_deleting, None)).unwrap();
        made["spec"] =
            json!({"attacher": "d.example", "nodeName": node, "source": {"persistentVolumeName": "pv"}});
        serde_json::from_value::<VolumeAttachment>(made).unwrap()
    };
    let node = |name: &str, reports: bool| {
        node(name, if reports { vec![named("kubernetes.io/csi/d.example^h")] } else { vec![] })
    };
    #[rustfmt::skip]
    let table = [
        // case                               mode             requests                                                   nodes                                    holds
        ("nowhere",                           "ReadWriteOnce", vec![],                                                    vec![],                                  true),
        ("asked for and there",               "ReadWriteOnce", vec![asked("n1", true, false)],                            vec![node("n1", true), node("n2", false)], true),
        ("asked for twice",                   "ReadWriteOnce", vec![asked("n1", false, false), asked("n2", false, false)], vec![],                                  false),
        ("asked for while it is detached",   "ReadWriteOnce", vec![asked("n1", false, true), asked("n2", false, false)], vec![],                                  false),
        ("asked for while a node reports it",  "ReadWriteOnce", vec![asked("n2", false, false)],                           vec![node("n1", true)],                  false),
        ("two report it",                     "ReadWriteOnce", vec![],                                                    vec![node("n1", true), node("n2", true)], false),
        ("for many",                          "ReadWriteMany", vec![asked("n1", true, false), asked("n2", true, true)],   vec![],                                  true),
    ];
    for (case, mode, requests, nodes, holds) in table {
        assert_eq!(invariants::one_node_each(&[volume(mode)], &requests, &nodes).is_ok(), holds, "{case}");
    }
}

fn node(name: &str, attached: Vec<AttachedVolume>) -> Node {
    let node = json!({"metadata": {"name": name}, "status": {"volumesAttached": attached}});
    serde_json::from_value(node).unwrap()
}

fn named(disk: &str) -> AttachedVolume {
    AttachedVolume { name: disk.into(), ..AttachedVolume::default() }
}
