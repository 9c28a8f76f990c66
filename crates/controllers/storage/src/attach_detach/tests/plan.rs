use std::time::Duration;

use flyball_api::node::AttachedVolume;
use flyball_api::{Node, VolumeAttachment};
use flyball_runtime::Plan;
use flyball_runtime::config::{AttachDetach, Config};
use proptest::prelude::*;
use serde_json::json;

use super::super::attempts::{Attempt, events_of_failed_calls};
use super::super::caches::DesiredAttachment;
use super::super::disk_on_node::{
    DiskOnNode, Failure, FlexAttachment, FlexState, Force, NodeState, Operation, UNMOUNT_TIMEOUT,
};
use super::super::plan::{View, detach_blocker, driver_calls, nodes_to_confirm, plan};
use super::super::report::{self, Entry, report};
use super::super::steps::{Policy, Step, steps};
use super::super::{invariants, messages};
use super::{By, attachment, desired, pod};

/// One disk on nodes, written as words: `node:word,word …`. `requested` means that there is a VolumeAttachment; the other words
/// are explained by [`DiskOnNode`].
pub(super) struct Scene {
    nodes: Vec<(String, Vec<String>)>,
    by: By,
    pub(super) desired: DesiredAttachment,
    found: Vec<Option<VolumeAttachment>>,
}

impl Scene {
    pub(super) fn new(text: &str, by: By, mode: &str) -> Self {
        let node = |text: &str| {
            let (node, words) = text.split_once(':').unwrap();
            (node.to_owned(), words.split(',').map(str::to_owned).collect::<Vec<_>>())
        };
        let nodes: Vec<_> = text.split_whitespace().map(node).collect();
        let found = |words: &Vec<String>| {
            let has = |word: &str| words.iter().any(|known| known == word);
            let error = has("error").then_some("no such disk");
            (by != By::Flex && (has("requested") || has("attached") || has("deleting")))
                .then(|| attachment(has("attached"), has("deleting"), error))
        };
        let found = nodes.iter().map(|(_, words)| found(words)).collect();
        Self { nodes, by, desired: desired(by, mode), found }
    }

    pub(super) fn view(&self, force_on_timeout: bool) -> View<'_> {
        View { nodes: self.nodes(), policy: policy(force_on_timeout) }
    }

    fn nodes(&self) -> Vec<DiskOnNode<'_>> {
        self.nodes
            .iter()
            .zip(&self.found)
            .map(|((node, words), found)| {
                let has = |word: &str| words.iter().any(|known| known == word);
                DiskOnNode {
                    node,
                    desired: has("desired").then_some(&self.desired),
                    attachment: found.as_ref(),
                    is_reported: has("reported"),
                    was_reported: has("was-reported"),
                    is_node_attach_allowed: has("allowed"),
                    flex: (self.by == By::Flex).then(|| FlexState {
                        is_driver_installed: !has("no-driver"),
                        attachment: if has("lost") {
                            FlexAttachment::Lost
                        } else if has("error") {
                            FlexAttachment::Uncertain
                        } else if has("attached") {
                            FlexAttachment::Attached("/dev/x".into())
                        } else {
                            FlexAttachment::None
                        },
                        attached_for: Duration::from_secs(if has("old") { 60 } else { 10 }),
                    }),
                    state: NodeState {
                        is_mounted: has("mounted"),
                        is_healthy: !has("unhealthy"),
                        is_out_of_service: has("out-of-service"),
                    },
                    undesired_for: if has("overdue") {
                        UNMOUNT_TIMEOUT + Duration::from_secs(1)
                    } else {
                        Duration::ZERO
                    },
                    attaching_for: if has("slow") { Duration::from_secs(120) } else { Duration::ZERO },
                    detaching_for: (has("deleting")
                        && !has("detach-failed")
                        && !has("detach-backoff")
                        && !has("before-start"))
                    .then(|| Duration::from_secs(if has("slow") { 120 } else { 20 })),
                    failure: {
                        let (attach, detach) = (Operation::Attach, Operation::Detach);
                        let of = |operation, is_backing_off| Failure { operation, is_backing_off };
                        let failures = [
                            ("attach-failed", of(attach, false)),
                            ("attach-backoff", of(attach, true)),
                            ("detach-failed", of(detach, false)),
                            ("detach-backoff", of(detach, true)),
                        ];
                        failures.into_iter().find(|(word, _)| has(word)).map(|(_, failure)| failure)
                    },
                    is_detaching: has("detaching"),
                    is_multi_attach_warned: has("warned"),
                    is_unmanaged: has("unmanaged"),
                    is_deleted: has("node-deleted"),
                    detach_blocker: has("blocked").then(|| "in use".to_owned()),
                }
            })
            .collect()
    }
}

fn policy(force_on_timeout: bool) -> Policy {
    Policy { force_on_timeout, verify_after: Some(Duration::from_secs(60)) }
}

fn words(step: &Step<'_>) -> String {
    match step {
        Step::Attach(node) => format!("attach {node}"),
        Step::AllowNodeAttach(node) => format!("allow {node}"),
        Step::Report(node) => format!("report {node}"),
        Step::Detach(node, None) => format!("detach {node}"),
        Step::Detach(node, Some(Force::Timeout)) => format!("force {node}: timeout"),
        Step::Detach(node, Some(Force::OutOfService)) => format!("force {node}: out of service"),
        Step::AttachFailed(node, why) => format!("attach-failed {node}: {why}"),
        Step::DetachFailed(node, why) => format!("detach-failed {node}: {why}"),
        Step::WarnMultiAttach(node) => format!("multi-attach {node}"),
        Step::Verify(node) => format!("verify {node}"),
        Step::Wait(delay) => format!("wait {}", delay.as_secs()),
    }
}

#[test]
fn steps_follow_from_desired_and_actual_attachments() {
    const ONCE: &str = "ReadWriteOnce";
    #[rustfmt::skip]
    let table = [
        // nodes, mode, steps
        ("n1:desired",                                      ONCE,            "attach n1"),
        ("n1:desired,requested",                            ONCE,            "wait 120"),
        ("n1:desired,requested,slow",                       ONCE,            "attach-failed n1: timed out waiting for external-attacher of d.example CSI driver to attach volume h"),
        ("n1:desired,requested,error",                      ONCE,            "attach-failed n1: no such disk"),
        ("n1:desired,requested,error,attach-backoff",       ONCE,            ""),
        ("n1:desired,requested,error,attach-failed",        ONCE,            "attach-failed n1: no such disk"),
        ("n1:desired,attach-backoff",                       ONCE,            ""),
        ("n1:desired,detach-backoff",                       ONCE,            "attach n1"),
        ("n1:desired,attached",                             ONCE,            "report n1"),
        ("n1:desired,attached,reported",                    ONCE,            ""),
        ("n1:desired,reported",                             ONCE,            "report n1"),
        ("n1:desired,requested,reported",                   ONCE,            "report n1"),
        // needed again while it is being detached
        ("n1:desired,deleting",                             ONCE,            "wait 100"),
        ("n1:desired,attached,deleting",                    ONCE,            "wait 100"),
        ("n1:desired,deleting n2:desired",                  ONCE,            "wait 100"),
        ("n1:desired,attached,deleting,slow",               ONCE,            "detach-failed n1: timed out waiting for external-attacher of d.example CSI driver to detach it; attach-failed n1: volume attachment is being deleted"),
        ("n1:desired,attached,deleting,error",              ONCE,            "detach-failed n1: no such disk; attach-failed n1: volume attachment is being deleted"),
        ("n1:desired,attached,deleting,error,before-start", ONCE,            "attach-failed n1: volume attachment is being deleted"),
        ("n1:desired,deleting,before-start",                ONCE,            "attach-failed n1: volume attachment is being deleted"),
        ("n1:desired,attached,deleting,before-start",       ONCE,            "attach-failed n1: volume attachment is being deleted"),
        ("n1:desired,attached,deleting,detach-backoff",     ONCE,            "attach-failed n1: volume attachment is being deleted"),
        ("n1:desired,deleting,before-start,attach-failed",  ONCE,            "attach-failed n1: volume attachment is being deleted"),
        ("n1:desired,deleting,before-start,attach-backoff", ONCE,            ""),
        ("n1:desired,attached,deleting,reported",           ONCE,            ""),
        // exclusive
        ("n1:desired n2:desired",                           ONCE,            "attach n1"),
        ("n1:desired,requested n2:desired",                 ONCE,            "wait 120"),
        ("n1:requested n2:desired",                         ONCE,            "detach n1"),
        ("n1:requested,mounted n2:desired",                 ONCE,            "multi-attach n2"),
        ("n1:requested,attach-backoff n2:desired",          ONCE,            "detach n1; multi-attach n2"),
        ("n1:deleting,attach-backoff n2:desired",           ONCE,            "wait 100"),
        ("n1:requested,detach-backoff n2:desired",          ONCE,            ""),
        ("n1:requested,error n2:desired",                   ONCE,            "detach n1; multi-attach n2"),
        ("n1:requested,unmanaged n2:desired",               ONCE,            ""),
        ("n1:attached,unmanaged n2:desired",                ONCE,            "multi-attach n2"),
        ("n1:reported,unmanaged n2:desired",                ONCE,            "multi-attach n2"),
        ("n1:mounted n2:desired",                           ONCE,            "attach n2"),
        ("n1:desired n2:desired,requested,error",           ONCE,            "multi-attach n1; attach-failed n2: no such disk"),
        ("n1:desired,requested,error n2:desired,requested", ONCE,            "attach-failed n1: no such disk; wait 120"),
        ("n1:desired,attached,reported n2:desired",         ONCE,            "multi-attach n2"),
        ("n1:attached,reported,mounted n2:desired",         ONCE,            "multi-attach n2"),
        ("n1:attached,reported n2:desired",                 ONCE,            "report n1; multi-attach n2"),
        ("n1:attached n2:desired",                          ONCE,            "detach n1; multi-attach n2"),
        ("n1:attached,blocked n2:desired,warned",           ONCE,            "detach-failed n1: in use"),
        ("n1:deleting n2:desired",                          ONCE,            "wait 100"),
        ("n1:deleting,attached n2:desired",                 ONCE,            "wait 100"),
        ("n1:deleting,attached,slow n2:desired",            ONCE,            "detach-failed n1: timed out waiting for external-attacher of d.example CSI driver to detach it"),
        ("n1:deleting,attached,detach-backoff n2:desired",  ONCE,            "multi-attach n2"),
        ("n1:deleting,detach-failed n2:desired,warned",     ONCE,            "detach n1"),
        ("n1:desired,requested,attach-backoff n2:desired",  ONCE,            "wait 120; multi-attach n2"),
        ("n1:deleting,error n2:desired",                    ONCE,            "detach-failed n1: no such disk; multi-attach n2"),
        ("n1:deleting,error,attached n2:desired",           ONCE,            "detach-failed n1: no such disk; multi-attach n2"),
        ("n1:desired n2:desired",                           "ReadWriteMany", "attach n1; attach n2"),
        ("n1:desired,attached,reported n2:desired",         "ReadOnlyMany",  "attach n2"),
        // a deleted node keeps its disks while it has pods, and gets no new ones
        ("n1:desired,attached,node-deleted",                ONCE,            ""),
        ("n1:desired,attached,node-deleted n2:desired",     ONCE,            "multi-attach n2"),
        ("n1:desired,requested,error,node-deleted",         ONCE,            ""),
        ("n1:desired,node-deleted",                         ONCE,            ""),
        ("n1:attached,node-deleted n2:desired,warned",      ONCE,            "detach n1"),
        // detach
        ("n1:requested",                                    ONCE,            "detach n1"),
        ("n1:attached,reported,unmanaged",                  ONCE,            ""),
        ("n1:requested,attach-backoff",                     ONCE,            "detach n1"),
        ("n1:requested,detach-backoff",                     ONCE,            ""),
        ("n1:attached,reported",                            ONCE,            "report n1"),
        ("n1:attached,reported,mounted",                    ONCE,            ""),
        ("n1:attached,mounted,unhealthy",                   ONCE,            "wait 360"),
        ("n1:attached,mounted,unhealthy,overdue",           ONCE,            "force n1: timeout"),
        ("n1:attached,mounted,overdue",                     ONCE,            ""),
        ("n1:attached,overdue",                             ONCE,            "force n1: timeout"),
        ("n1:attached,mounted,unhealthy,out-of-service",    ONCE,            "force n1: out of service"),
        ("n1:attached,reported,mounted,out-of-service",     ONCE,            "report n1"),
        ("n1:deleting",                                     ONCE,            "wait 100"),
        ("n1:deleting,slow",                                ONCE,            "detach-failed n1: timed out waiting for external-attacher of d.example CSI driver to detach it"),
        ("n1:deleting,before-start",                        ONCE,            "detach n1"),
        ("n1:deleting,detach-failed",                       ONCE,            "detach n1"),
        ("n1:deleting,detach-backoff",                      ONCE,            ""),
        ("n1:deleting,mounted,before-start",                ONCE,            ""),
        ("n1:deleting,error",                               ONCE,            "detach-failed n1: no such disk"),
        ("n1:deleting,error,before-start",                  ONCE,            "detach n1"),
        ("n1:deleting,error,attach-backoff",                ONCE,            "detach-failed n1: no such disk"),
        ("n1:deleting,error,detach-failed",                 ONCE,            "detach n1"),
        ("n1:deleting,error,detach-backoff",                ONCE,            ""),
    ];
    for (nodes, mode, want) in table {
        let scene = Scene::new(nodes, By::Csi, mode);
        let view = scene.view(true);
        assert_eq!(view.steps().iter().map(words).collect::<Vec<_>>().join("; "), want, "{nodes} {mode}");
        assert_eq!(invariants::check(&view), Ok(()), "{nodes} {mode}");
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
        // nodes, plan
        ("n1:desired,attached,reported",                              String::new()),
        ("n1:desired",                                                format!("each\n  create VolumeAttachment {ATTACHMENT}: 1 pods on node n1 need volume pv\n    else {}", failed("kubernetes.io/csi: attacher.Attach failed: <error>"))),
        ("n1:desired,requested",                                      "again after 120s\nwaiting for VolumeAttachment/csi-x to be attached by its driver".to_owned()),
        ("n1:desired,requested,error",                                format!("each\n  {}\nwaiting for VolumeAttachment/csi-x to be attached by its driver", failed("no such disk"))),
        ("n1:desired,attached,reported n2:desired",                   format!("each\n  {}", event(&format!("Waiting for detach for volume \"pv\" {held}")))),
        ("n1:desired,attached,reported n2:desired,warned",            String::new()),
        ("n1:attached,reported,mounted n2:desired n3:desired,warned", format!("each\n  {}\nwaiting for Node/n1 to unmount the volume", event("Waiting for detach for volume \"pv\" Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node"))),
        ("n1:attached",                                               "each\n  delete VolumeAttachment csi-x: no pod on node n1 needs the volume\nagain after 120s".to_owned()),
        ("n1:attached,blocked",                                       String::new()),
        ("n1:attached,mounted,unhealthy,out-of-service",              "each\n  delete VolumeAttachment csi-x: no pod on node n1 needs the volume; the node is out of service\nagain after 120s".to_owned()),
        ("n1:attached,mounted,unhealthy,overdue",                     "each\n  delete VolumeAttachment csi-x: no pod on node n1 needs the volume; the node did not unmount it in time\nagain after 120s".to_owned()),
        ("n1:attached,reported,mounted",                              "waiting for Node/n1 to unmount the volume".to_owned()),
        ("n1:deleting",                                               "again after 100s\nwaiting for VolumeAttachment/csi-x to be detached by its driver".to_owned()),
    ];
    for (nodes, want) in table {
        let scene = Scene::new(nodes, By::Csi, "ReadWriteOnce");
        let name = scene.desired.disk.driver().unwrap().attachment("n1");
        assert_eq!(plan(&scene.view(true)).to_string().replace(name.as_str(), ATTACHMENT), want, "{nodes}");
    }
}

#[test]
fn nodes_are_read_before_a_disk_is_detached_without_force() {
    #[rustfmt::skip]
    let table = [
        ("n1:attached",                                  "n1"),
        ("n1:attached n2:requested",                     "n1 n2"),
        ("n1:attached,mounted,unhealthy,out-of-service", ""),
        ("n1:desired",                                   ""),
    ];
    for (nodes, want) in table {
        let scene = Scene::new(nodes, By::Csi, "ReadWriteOnce");
        assert_eq!(nodes_to_confirm(&scene.view(true)).join(" "), want, "{nodes}");
    }
    let disk = desired(By::Csi, "ReadWriteOnce").disk.name;
    let mut found = node("n1", vec![]);
    assert_eq!(detach_blocker(&Ok(found.clone()), &disk), None);
    let reported = detach_blocker(&Ok(node("n1", vec![named(&disk)])), &disk);
    assert_eq!(reported.as_deref(), Some("the volume is in volumesAttached of the node's status"));
    found.status.volumes_in_use = vec![disk.clone()].into_iter().collect();
    let mounted = detach_blocker(&Ok(found), &disk);
    assert_eq!(mounted.as_deref(), Some("the volume is in volumesInUse of the node's status"));
}

#[test]
fn without_force_a_node_keeps_what_it_has_mounted() {
    let scene = Scene::new(
        "n1:attached,mounted,unhealthy,overdue n2:attached,mounted,unhealthy,out-of-service",
        By::Csi,
        "ReadWriteOnce",
    );
    let steps: Vec<String> = steps(&scene.nodes(), policy(false)).iter().map(words).collect();
    assert_eq!(steps, ["force n2: out of service"]);
}

#[test]
fn a_node_attaches_disks_without_a_driver_itself() {
    #[rustfmt::skip]
    let table = [
        ("n1:desired",                    "allow n1"),
        ("n1:desired,allowed",            "report n1"),
        ("n1:desired,allowed,reported",   ""),
        ("n1:desired n2:desired",         "allow n1"),
        ("n1:desired,allowed n2:desired", "report n1; multi-attach n2"),
        ("n1:reported n2:desired",        "report n1; multi-attach n2"),
        ("n1:reported,mounted",           ""),
    ];
    for (nodes, want) in table {
        let scene = Scene::new(nodes, By::Node, "ReadWriteOnce");
        let steps: Vec<String> = steps(&scene.nodes(), policy(true)).iter().map(words).collect();
        assert_eq!(steps.join("; "), want, "{nodes}");
    }
}

#[test]
fn a_flex_volume_is_attached_and_detached_by_its_driver() {
    const ONCE: &str = "ReadWriteOnce";
    #[rustfmt::skip]
    let table = [
        // nodes, mode, steps
        ("n1:desired",                                  ONCE,            "attach n1"),
        ("n1:desired,attach-backoff",                   ONCE,            ""),
        ("n1:desired,detach-backoff",                   ONCE,            "attach n1"),
        ("n1:desired,error",                            ONCE,            "attach n1"),
        ("n1:desired,error,attach-backoff",             ONCE,            ""),
        ("n1:desired,attached",                         ONCE,            "report n1"),
        ("n1:desired,attached,reported",                ONCE,            "wait 50"),
        ("n1:desired,attached,reported,old",            ONCE,            "verify n1"),
        ("n1:desired,lost,reported",                    ONCE,            "report n1"),
        ("n1:desired,lost",                             ONCE,            "attach n1"),
        ("n1:desired n2:desired",                       ONCE,            "attach n1"),
        ("n1:desired n2:desired",                       "ReadWriteMany", "attach n1; attach n2"),
        ("n1:error n2:desired",                         ONCE,            "detach n1; multi-attach n2"),
        ("n1:error,detach-backoff n2:desired,warned",   ONCE,            ""),
        ("n1:attached,reported n2:desired",             ONCE,            "report n1; multi-attach n2"),
        // detach
        ("n1:attached,reported",                        ONCE,            "report n1"),
        ("n1:attached,reported,mounted",                ONCE,            ""),
        ("n1:attached",                                 ONCE,            "detach n1"),
        ("n1:attached,blocked",                         ONCE,            "detach-failed n1: in use"),
        ("n1:attached,detach-backoff",                  ONCE,            ""),
        ("n1:error,attach-backoff",                     ONCE,            "detach n1"),
        ("n1:error",                                    ONCE,            "detach n1"),
        ("n1:attached,mounted,unhealthy,overdue",       ONCE,            "force n1: timeout"),
        ("n1:attached,mounted,unhealthy,node-deleted",  ONCE,            "wait 360"),
        ("n1:lost,reported",                            ONCE,            "report n1"),
        ("n1:lost",                                     ONCE,            ""),
        // nothing can be done without the driver
        ("n1:attached,reported,no-driver",              ONCE,            ""),
        ("n1:attached,no-driver",                       ONCE,            ""),
    ];
    for (nodes, mode, want) in table {
        let scene = Scene::new(nodes, By::Flex, mode);
        let view = scene.view(true);
        assert_eq!(view.steps().iter().map(words).collect::<Vec<_>>().join("; "), want, "{nodes} {mode}");
        assert_eq!(invariants::check(&view), Ok(()), "{nodes} {mode}");
        assert!(plan(&view).writes().is_empty(), "{nodes} {mode}: no VolumeAttachments");
    }
    let scene = Scene::new("n1:desired,attached,reported,old", By::Flex, ONCE);
    let never = Policy { verify_after: None, ..policy(true) };
    assert_eq!(steps(&scene.nodes(), never), [], "--disable-attach-detach-reconcile-sync");
}

#[test]
fn steps_for_a_flex_volume_become_calls_of_its_driver() {
    let scene =
        Scene::new("n1:desired n2:desired,attached,reported,old n3:attached", By::Flex, "ReadWriteMany");
    let view = scene.view(true);
    let calls = format!("{:?}", driver_calls(&view));
    let volume = format!("{:?}", scene.desired.disk.flex().unwrap());
    assert_eq!(
        calls.replace(&volume, "VOLUME"),
        "[Detach(\"n3\", None), Attach(\"n1\", VOLUME), Verify(\"n2\", VOLUME)]"
    );
    let attempt = |node, is_detach| Attempt { node, is_detach, error: Some("no such disk".to_owned()) };
    let events = events_of_failed_calls(&view, &[attempt("n1", false), attempt("n3", true)]);
    assert_eq!(
        Plan::<()>::of(events).to_string(),
        "event Warning FailedAttachVolume: AttachVolume.Attach failed for volume \"pv\" : no such disk (Pod app)"
    );
    assert!(
        driver_calls(&Scene::new("n1:desired n2:attached", By::Csi, "ReadWriteMany").view(true)).is_empty()
    );
}

#[test]
fn volumes_attached_of_a_node_lists_what_is_attached() {
    #[rustfmt::skip]
    let table = [
        // nodes, attached by, list after; None: as it is
        ("n1:desired,attached",                         By::Csi,  Some("disk")),
        ("n1:desired,attached,reported",                By::Csi,  None),
        ("n1:desired,requested",                        By::Csi,  None),
        ("n1:desired,requested,reported",               By::Csi,  Some("")),
        ("n1:desired,reported",                         By::Csi,  Some("")),
        ("n1:desired,attached,deleting",                By::Csi,  None),
        ("n1:desired,attached,detaching",               By::Csi,  None),
        ("n1:attached,reported",                        By::Csi,  Some("")),
        ("n1:attached,reported,mounted",                By::Csi,  None),
        ("n1:attached,reported,mounted,out-of-service", By::Csi,  Some("")),
        ("n1:attached,reported,mounted,overdue",        By::Csi,  None),
        ("n1:reported,mounted",                         By::Csi,  Some("")),
        ("n1:attached",                                 By::Csi,  None),
        ("n1:desired",                                  By::Node, None),
        ("n1:desired,allowed",                          By::Node, Some("disk")),
        ("n1:desired,reported",                         By::Node, None),
        ("n1:reported,mounted",                         By::Node, None),
        ("n1:reported",                                 By::Node, Some("")),
        ("n1:desired,attached",                         By::Flex, Some("disk")),
        ("n1:desired,attached,reported",                By::Flex, None),
        ("n1:desired,error",                            By::Flex, None),
        ("n1:desired,lost,reported",                    By::Flex, Some("")),
        ("n1:attached,reported",                        By::Flex, Some("")),
        ("n1:attached,reported,mounted",                By::Flex, None),
        ("n1:attached,reported,no-driver",              By::Flex, None),
    ];
    for (nodes, by, want) in table {
        let scene = Scene::new(nodes, by, "ReadWriteOnce");
        let on_node = scene.nodes().remove(0);
        let disk = scene.desired.disk.name.clone();
        let node = node("n1", if on_node.is_reported { vec![named(&disk)] } else { vec![] });
        let added =
            AttachedVolume { device_path: if by == By::Flex { "/dev/x" } else { "" }.into(), ..named(&disk) };
        let view = report::View {
            node: &node,
            entries: vec![Entry { disk: &disk, on_node }],
            force_on_timeout: true,
        };
        let want = want.map(|list| if list.is_empty() { vec![] } else { vec![added] });
        let report = report(&view);
        assert_eq!(
            report.as_ref().map_or(Ok(()), |report| invariants::check_report(&view, report)),
            Ok(()),
            "{nodes}"
        );
        // A driver's disk is detached when its VolumeAttachment is gone.
        let is_detached = want.as_ref().is_some_and(Vec::is_empty) && by == By::Node;
        assert_eq!(report.as_ref().is_some_and(|report| !report.detached.is_empty()), is_detached, "{nodes}");
        assert_eq!(report.map(|report| report.volumes), want, "{nodes}");
    }
}

#[test]
fn a_report_for_another_state_of_the_node_breaks_an_invariant() {
    let of = |nodes: &str, by, list: Vec<AttachedVolume>| -> String {
        let scene = Scene::new(nodes, by, "ReadWriteOnce");
        let on_node = scene.nodes().remove(0);
        let disk = scene.desired.disk.name.clone();
        let node = node("n1", if on_node.is_reported { vec![named(&disk)] } else { vec![] });
        let entries = vec![Entry { disk: &disk, on_node }];
        let view = report::View { node: &node, entries, force_on_timeout: true };
        let wrong = report::Report { volumes: list, ..report::Report::default() };
        invariants::check_report(&view, &wrong).unwrap_err().split(": ").next().unwrap().to_owned()
    };
    let added = |nodes: &str, by| {
        let disk = Scene::new(nodes, by, "ReadWriteOnce").desired.disk.name.clone();
        of(nodes, by, vec![named(&disk)])
    };
    let removed = |nodes: &str, by| of(nodes, by, vec![]);
    assert_eq!(added("n1:attached", By::Csi), "nothing is added that no pod on the node needs");
    assert_eq!(added("n1:desired,attached,detaching", By::Csi), "nothing is added that is being detached");
    let unattached = "nothing is added that is not attached, unless the node attaches it";
    assert_eq!(added("n1:desired,requested", By::Csi), unattached);
    assert_eq!(
        removed("n1:desired,attached,reported", By::Csi),
        "nothing is removed that is attached and needed"
    );
    let mounted = "nothing is removed that is mounted on a healthy node";
    assert_eq!(removed("n1:attached,reported,mounted", By::Csi), mounted);
    let node = node("n1", vec![named("kubernetes.io/other/x")]);
    let view = report::View { node: &node, entries: vec![], force_on_timeout: true };
    let wrong = invariants::check_report(&view, &report::Report::default()).unwrap_err();
    assert!(wrong.starts_with("nothing is removed of which nothing is known"), "{wrong}");
}

#[test]
fn an_unknown_disk_stays_on_the_list() {
    let node = node("n1", vec![named("kubernetes.io/other/x")]);
    assert_eq!(report(&report::View { node: &node, entries: vec![], force_on_timeout: true }), None);
}

#[test]
fn a_report_patches_the_status_and_then_emits_events() {
    let scene = Scene::new("n1:desired,attached", By::Csi, "ReadWriteOnce");
    let (node, disk) = (node("n1", vec![]), scene.desired.disk.name.clone());
    let entries = vec![Entry { disk: &disk, on_node: scene.nodes().remove(0) }];
    let plan = report::plan(&report::View { node: &node, entries, force_on_timeout: true });
    assert_eq!(
        plan.to_string(),
        "patch Node/status n1: 1 volumes are attached\n  \
         then event Normal SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume \"pv\"  (Pod app)"
    );
    let body = plan.writes()[0].body().unwrap();
    assert_eq!(body["status"]["volumesAttached"][0]["name"], disk.as_str());

    let scene = Scene::new("n1:desired,attached,was-reported", By::Csi, "ReadWriteOnce");
    let entries = vec![Entry { disk: &disk, on_node: scene.nodes().remove(0) }];
    let plan = report::plan(&report::View { node: &node, entries, force_on_timeout: true });
    assert_eq!(
        plan.to_string(),
        "patch Node/status n1: 1 volumes are attached",
        "the node was deleted and registered again"
    );
}

#[test]
fn an_event_names_the_pods_that_have_the_disk() {
    let disk = desired(By::Csi, "ReadWriteOnce").disk;
    let waiting = pod("a", "new");
    #[rustfmt::skip]
    let table = [
        (vec![],                             "Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node"),
        (vec![pod("a", "x"), pod("a", "y")], "Volume is already used by pod(s) x, y"),
        (vec![pod("a", "x"), pod("b", "y")], "Volume is already used by pod(s) x and 1 pod(s) in different namespaces"),
        (vec![pod("b", "x"), pod("c", "y")], "Volume is already used by 2 pod(s) in different namespaces"),
    ];
    for (holders, want) in table {
        let message = messages::multi_attach(&disk, &waiting, &holders);
        assert_eq!(message, format!("Waiting for detach for volume \"pv\" {want}"));
    }
}

const WORDS: [&str; 23] = [
    "no-driver",
    "lost",
    "old",
    "node-deleted",
    "desired",
    "requested",
    "attached",
    "deleting",
    "error",
    "reported",
    "mounted",
    "unhealthy",
    "out-of-service",
    "overdue",
    "slow",
    "before-start",
    "attach-failed",
    "attach-backoff",
    "detach-failed",
    "detach-backoff",
    "unmanaged",
    "warned",
    "blocked",
];

proptest! {
    #[test]
    fn the_invariants_hold_in_any_state(
        nodes in prop::collection::vec(prop::sample::subsequence(WORDS.to_vec(), 0..=WORDS.len()), 1..4),
        by in prop::sample::select(vec![By::Csi, By::Flex, By::Node]),
        is_shared: bool,
        force_on_timeout: bool,
    ) {
        let text: Vec<String> =
            nodes.iter().enumerate().map(|(n, words)| format!("n{n}:{}", words.join(","))).collect();
        let mode = if is_shared { "ReadWriteMany" } else { "ReadWriteOnce" };
        let scene = Scene::new(&text.join(" "), by, mode);
        prop_assert_eq!(invariants::check(&scene.view(force_on_timeout)), Ok(()));
    }
}

#[test]
fn an_exclusive_disk_has_one_node_in_any_state_of_its_attachments() {
    let volume = |mode: &str| {
        super::volume(json!({"csi": {"driver": "d.example", "volumeHandle": "h"}, "accessModes": [mode]}))
    };
    let requested = |node: &str, is_attached: bool, is_deleting: bool| {
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
        // case, mode, VolumeAttachments, nodes, holds
        ("nowhere",                            "ReadWriteOnce", vec![],                                                             vec![],                                    true),
        ("requested and reported",             "ReadWriteOnce", vec![requested("n1", true, false)],                                 vec![node("n1", true), node("n2", false)], true),
        ("requested twice",                    "ReadWriteOnce", vec![requested("n1", false, false), requested("n2", false, false)], vec![],                                    false),
        ("requested during a detach",          "ReadWriteOnce", vec![requested("n1", false, true), requested("n2", false, false)],  vec![],                                    false),
        ("requested while reported elsewhere", "ReadWriteOnce", vec![requested("n2", false, false)],                                vec![node("n1", true)],                    false),
        ("reported by two nodes",              "ReadWriteOnce", vec![],                                                             vec![node("n1", true), node("n2", true)],  false),
        ("shared",                             "ReadWriteMany", vec![requested("n1", true, false), requested("n2", true, true)],    vec![],                                    true),
    ];
    for (case, mode, attachments, nodes, holds) in table {
        assert_eq!(invariants::one_node_each(&[volume(mode)], &attachments, &nodes).is_ok(), holds, "{case}");
    }
}

fn node(name: &str, attached: Vec<AttachedVolume>) -> Node {
    let node = json!({"metadata": {"name": name}, "status": {"volumesAttached": attached}});
    serde_json::from_value(node).unwrap()
}

fn named(disk: &str) -> AttachedVolume {
    AttachedVolume { name: disk.into(), ..AttachedVolume::default() }
}

#[test]
fn a_short_period_disables_the_check_of_flex_volumes() {
    let config = |millis: u64, disabled: bool| AttachDetach {
        reconciler_sync_loop_period: Duration::from_millis(millis),
        disable_reconciler_sync: disabled,
        ..Config::default().attach_detach_controller
    };
    assert_eq!(Policy::of(&config(1000, false)).verify_after, Some(Duration::from_secs(1)));
    assert_eq!(Policy::of(&config(999, false)).verify_after, None);
    assert_eq!(Policy::of(&config(1000, true)).verify_after, None);
}
