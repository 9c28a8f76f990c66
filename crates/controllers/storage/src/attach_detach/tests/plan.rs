use std::time::Duration;

use flyball_api::VolumeAttachment;
use flyball_api::node::AttachedVolume;
use proptest::prelude::*;

use super::super::invariants;
use super::super::plan::{Force, PATIENCE, Place, Stand, Step, plan};
use super::super::report::{Entry, report};
use super::super::wants::Want;
use super::super::wording;
use super::{attachment, pod, want};

/// Places as words: `node:word,word …`.
struct Scene {
    nodes: Vec<(String, Vec<String>)>,
    want: Want,
    found: Vec<Option<VolumeAttachment>>,
}

impl Scene {
    fn new(text: &str, is_driven: bool, mode: &str) -> Self {
        let node = |place: &str| {
            let (node, words) = place.split_once(':').unwrap();
            (node.to_owned(), words.split(',').map(str::to_owned).collect::<Vec<_>>())
        };
        let nodes: Vec<_> = text.split_whitespace().map(node).collect();
        let found = |words: &Vec<String>| {
            let has = |word: &str| words.iter().any(|known| known == word);
            let error = has("error").then_some("no such disk");
            (has("asked") || has("attached") || has("going"))
                .then(|| attachment(has("attached"), has("going"), error))
        };
        let found = nodes.iter().map(|(_, words)| found(words)).collect();
        Self { nodes, want: want(is_driven, mode), found }
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
                    is_admitted: has("admitted"),
                    stand: Stand {
                        is_mounted: has("mounted"),
                        is_healthy: !has("ill"),
                        is_out_of_service: has("out"),
                    },
                    unwanted_for: if has("long") {
                        PATIENCE + Duration::from_secs(1)
                    } else {
                        Duration::ZERO
                    },
                    attaching_for: if has("slow") { Duration::from_secs(120) } else { Duration::ZERO },
                    has_failed: has("failed"),
                    is_resting: has("resting"),
                    is_leaving: has("leaving"),
                    is_left_alone: has("alone"),
                }
            })
            .collect()
    }
}

fn words(step: &Step<'_>) -> String {
    match step {
        Step::Attach(node) => format!("attach {node}"),
        Step::Admit(node) => format!("admit {node}"),
        Step::Report(node) => format!("report {node}"),
        Step::Detach(node, None) => format!("detach {node}"),
        Step::Detach(node, Some(Force::Timeout)) => format!("take {node} late"),
        Step::Detach(node, Some(Force::OutOfService)) => format!("take {node} out"),
        Step::AttachFailed(node, why) => format!("failed {node}: {why}"),
        Step::DetachFailed(node, why) => format!("stuck {node}: {why}"),
        Step::TellHeld(node) => format!("held {node}"),
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
        ("n1:wanted,asked,error,resting",                    ONCE,            ""),
        ("n1:wanted,resting",                                ONCE,            ""),
        ("n1:wanted,attached",                               ONCE,            "report n1"),
        ("n1:wanted,attached,reported",                      ONCE,            ""),
        ("n1:wanted,reported",                               ONCE,            "report n1"),
        ("n1:wanted,asked,reported",                         ONCE,            "report n1"),
        ("n1:wanted,going",                                  ONCE,            "failed n1: volume attachment is being deleted"),
        ("n1:wanted,attached,going",                         ONCE,            "failed n1: volume attachment is being deleted"),
        ("n1:wanted,attached,going,reported",                ONCE,            ""),
        // one node only
        ("n1:wanted n2:wanted",                              ONCE,            "attach n1"),
        ("n1:wanted,asked n2:wanted",                        ONCE,            "wait 120"),
        ("n1:asked n2:wanted",                               ONCE,            "detach n1"),
        ("n1:asked,mounted n2:wanted",                       ONCE,            "held n2"),
        ("n1:asked,resting n2:wanted",                       ONCE,            ""),
        ("n1:asked,error n2:wanted",                         ONCE,            "detach n1; held n2"),
        ("n1:asked,alone n2:wanted",                         ONCE,            ""),
        ("n1:attached,alone n2:wanted",                      ONCE,            "held n2"),
        ("n1:reported,alone n2:wanted",                      ONCE,            "held n2"),
        ("n1:mounted n2:wanted",                             ONCE,            "attach n2"),
        ("n1:wanted n2:wanted,asked,error",                  ONCE,            "held n1; failed n2: no such disk"),
        ("n1:wanted,asked,error n2:wanted,asked",            ONCE,            "failed n1: no such disk; wait 120"),
        ("n1:wanted,attached,reported n2:wanted",            ONCE,            "held n2"),
        ("n1:attached,reported,mounted n2:wanted",           ONCE,            "held n2"),
        ("n1:attached,reported n2:wanted",                   ONCE,            "report n1; held n2"),
        ("n1:attached n2:wanted",                            ONCE,            "detach n1; held n2"),
        ("n1:going n2:wanted",                               ONCE,            ""),
        ("n1:going,attached n2:wanted",                      ONCE,            ""),
        ("n1:going,error n2:wanted",                         ONCE,            "stuck n1: no such disk; held n2"),
        ("n1:going,error,attached n2:wanted",                ONCE,            "stuck n1: no such disk; held n2"),
        ("n1:wanted n2:wanted",                              "ReadWriteMany", "attach n1; attach n2"),
        ("n1:wanted,attached,reported n2:wanted",            "ReadOnlyMany",  "attach n2"),
        // away
        ("n1:asked",                                         ONCE,            "detach n1"),
        ("n1:asked,resting",                                 ONCE,            ""),
        ("n1:attached,reported",                             ONCE,            "report n1"),
        ("n1:attached,reported,mounted",                     ONCE,            ""),
        ("n1:attached,mounted,ill",                          ONCE,            "wait 360"),
        ("n1:attached,mounted,ill,long",                     ONCE,            "take n1 late"),
        ("n1:attached,mounted,long",                         ONCE,            ""),
        ("n1:attached,long",                                 ONCE,            "take n1 late"),
        ("n1:attached,mounted,ill,out",                      ONCE,            "take n1 out"),
        ("n1:attached,reported,mounted,out",                 ONCE,            "report n1"),
        ("n1:going",                                         ONCE,            ""),
        ("n1:going,error",                                   ONCE,            "stuck n1: no such disk"),
        ("n1:going,error,failed",                            ONCE,            "detach n1"),
        ("n1:going,error,failed,resting",                    ONCE,            ""),
    ];
    for (places, mode, want) in table {
        let scene = Scene::new(places, true, mode);
        let (places, text) = (scene.places(), places);
        let steps = plan(&places, true);
        assert_eq!(steps.iter().map(words).collect::<Vec<_>>().join("; "), want, "{text} {mode}");
        assert_eq!(invariants::check(&places, &steps), Ok(()), "{text} {mode}");
    }
}

#[test]
fn without_force_a_node_keeps_what_it_has_mounted() {
    let scene = Scene::new("n1:attached,mounted,ill,long n2:attached,mounted,ill,out", true, "ReadWriteOnce");
    let steps: Vec<String> = plan(&scene.places(), false).iter().map(words).collect();
    assert_eq!(steps, ["take n2 out"]);
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
        let steps: Vec<String> = plan(&scene.places(), true).iter().map(words).collect();
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
        ("n1:wanted,attached,going",          true,   None),
        ("n1:wanted,attached,leaving",        true,   None),
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
    for (places, is_driven, want) in table {
        let scene = Scene::new(places, is_driven, "ReadWriteOnce");
        let place = scene.places().remove(0);
        let disk = scene.want.disk.name.clone();
        let said = if place.is_reported { vec![named(&disk)] } else { vec![] };
        let told = report(&said, &[Entry { disk: &disk, place }], true);
        let want = want.map(|list| if list.is_empty() { vec![] } else { vec![named(&disk)] });
        assert_eq!(told.map(|told| told.volumes), want, "{places}");
    }
}

#[test]
fn what_nobody_here_knows_stays_on_the_list() {
    let said = [named("kubernetes.io/other/x")];
    assert_eq!(report(&said, &[], true), None);
}

#[test]
fn users_hear_who_has_their_disk() {
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
        let told = wording::held(&disk, &waiting, &holders);
        assert_eq!(told, format!("Waiting for detach for volume \"pv\" {want}"));
    }
}

const WORDS: [&str; 14] = [
    "wanted", "asked", "attached", "going", "error", "reported", "mounted", "ill", "out", "long", "slow",
    "failed", "resting", "alone",
];

proptest! {
    #[test]
    fn whatever_the_places_the_invariants_hold(
        nodes in prop::collection::vec(prop::sample::subsequence(WORDS.to_vec(), 0..=14), 1..4),
        is_driven: bool,
        is_shared: bool,
        forces: bool,
    ) {
        let text: Vec<String> =
            nodes.iter().enumerate().map(|(n, words)| format!("n{n}:{}", words.join(","))).collect();
        let mode = if is_shared { "ReadWriteMany" } else { "ReadWriteOnce" };
        let scene = Scene::new(&text.join(" "), is_driven, mode);
        let places = scene.places();
        prop_assert_eq!(invariants::check(&places, &plan(&places, forces)), Ok(()));
    }
}

#[test]
fn a_disk_for_one_node_is_on_one_whatever_state_its_requests_are_in() {
    use serde_json::json;
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
        let disks = if reports { vec![named("kubernetes.io/csi/d.example^h")] } else { vec![] };
        let made = json!({"metadata": {"name": name}, "status": {"volumesAttached": disks}});
        serde_json::from_value::<flyball_api::Node>(made).unwrap()
    };
    #[rustfmt::skip]
    let table = [
        // case                               mode             requests                                                   nodes                                    holds
        ("nowhere",                           "ReadWriteOnce", vec![],                                                    vec![],                                  true),
        ("asked for and there",               "ReadWriteOnce", vec![asked("n1", true, false)],                            vec![node("n1", true), node("n2", false)], true),
        ("asked for twice",                   "ReadWriteOnce", vec![asked("n1", false, false), asked("n2", false, false)], vec![],                                  false),
        ("asked for while it is being taken", "ReadWriteOnce", vec![asked("n1", false, true), asked("n2", false, false)], vec![],                                  false),
        ("asked for while a node is told",    "ReadWriteOnce", vec![asked("n2", false, false)],                           vec![node("n1", true)],                  false),
        ("two are told",                      "ReadWriteOnce", vec![],                                                    vec![node("n1", true), node("n2", true)], false),
        ("for many",                          "ReadWriteMany", vec![asked("n1", true, false), asked("n2", true, true)],   vec![],                                  true),
    ];
    for (case, mode, requests, nodes, holds) in table {
        assert_eq!(invariants::one_node_each(&[volume(mode)], &requests, &nodes).is_ok(), holds, "{case}");
    }
}

fn named(disk: &str) -> AttachedVolume {
    AttachedVolume { name: disk.into(), ..AttachedVolume::default() }
}
