//! Tables for which component expands a claim, and for the progress of a FlexVolume.

use std::sync::Arc;

use flyball_api::{PersistentVolume, PersistentVolumeClaim, Timestamp};
use flyball_cache::{Change, Origin};
use serde_json::{Value, json};

use super::plan::{View, operation, plan};
use super::progress;
use super::triggers::claim_changed;

/// A claim: its request, its capacity, the size it grows to, and the state of that.
fn claim(requested: &str, held: &str, allocated: &str, state: &str) -> PersistentVolumeClaim {
    let amount = |text: &str| if text.is_empty() { json!({}) } else { json!({"storage": text}) };
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "c", "uid": "u"},
        "spec": {"volumeName": "v", "resources": {"requests": amount(requested)}},
        "status": {
            "phase": "Bound", "capacity": amount(held), "allocatedResources": amount(allocated),
            "allocatedResourceStatuses": amount(state),
        },
    }))
    .unwrap()
}

fn volume(source: Value, size: &str, annotated: bool) -> PersistentVolume {
    let mut spec = source;
    spec["capacity"] = json!({"storage": size});
    spec["claimRef"] = json!({"namespace": "ns", "name": "c", "uid": "u"});
    let annotations =
        if annotated { json!({"volume.alpha.kubernetes.io/pre-resize-capacity": "1Gi"}) } else { json!({}) };
    serde_json::from_value(json!({"metadata": {"name": "v", "annotations": annotations}, "spec": spec}))
        .unwrap()
}

fn planned(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> String {
    let now = Timestamp::from_second(100).unwrap();
    plan(&View { claim, volume: Some(volume), recovers: true, now }).to_string()
}

#[test]
fn a_claim_that_asks_for_more_is_left_to_the_component_that_can_expand_it() {
    let csi = || json!({"csi": {"driver": "csi.example.com", "volumeHandle": "h"}});
    let ebs = || json!({"awsElasticBlockStore": {"volumeID": "v"}});
    let resizer = "waiting for PersistentVolumeClaim/ns/c to be expanded by an external resizer";
    let external = format!(
        "event Normal ExternalExpanding: waiting for an external controller to expand this PVC\n{resizer}"
    );
    let migrated = format!(
        "event Normal ExternalExpanding: CSI migration enabled for kubernetes.io/aws-ebs; waiting for external \
         resizer to expand the pvc\n\
         patch PersistentVolumeClaim/status ns/c: a driver expands it\n  \
         else event Warning ExternalExpanding: error setting resizer annotation to pvc ns/c, with error \
         patchPVCStatus failed to patch PVC \"c\": <error>\n{resizer}"
    );
    #[rustfmt::skip]
    let table = [
        // case                            requested  held   volume                       plan
        ("it has what it asks for",        "1Gi",     "1Gi", volume(csi(), "1Gi", false), ""),
        ("it has more",                    "1Gi",     "2Gi", volume(csi(), "2Gi", false), ""),
        ("of a driver",                    "2Gi",     "1Gi", volume(csi(), "1Gi", false), &external),
        ("a directory",                    "2Gi",     "1Gi", volume(json!({"hostPath": {"path": "/a"}}), "1Gi", false), &external),
        ("of a plugin that was replaced",  "2Gi",     "1Gi", volume(ebs(), "1Gi", false), &migrated),
        ("of such a plugin, annotated",    "2Gi",     "2Gi", volume(ebs(), "2Gi", true),  &migrated),
    ];
    for (case, requested, held, volume, want) in table {
        assert_eq!(planned(&claim(requested, held, "", ""), &volume), want, "{case}");
    }
    let mut annotated = claim("2Gi", "1Gi", "", "");
    annotated.metadata.annotations =
        annotated.metadata.annotations.with("volume.kubernetes.io/storage-resizer", "ebs.csi.aws.com");
    assert!(!planned(&annotated, &volume(ebs(), "1Gi", false)).contains("patch"), "annotated once");
}

#[test]
fn a_claim_waits_for_the_volume_that_it_is_bound_to() {
    let mut other = volume(json!({}), "1Gi", false);
    other.spec =
        other.spec.edited(|spec| spec["claimRef"] = json!({"namespace": "ns", "uid": "other"})).unwrap();
    let want = "not yet: persistent Volume is not bound to PVC being updated : ns/c\n\
                waiting for PersistentVolume/v to be bound to the claim";
    let claim = claim("2Gi", "1Gi", "", "");
    assert_eq!(planned(&claim, &other), want);
    let now = Timestamp::from_second(100).unwrap();
    assert_eq!(plan(&View { claim: &claim, volume: None, recovers: true, now }).to_string(), want);
}

#[test]
fn a_flex_volume_is_expanded_step_by_step() {
    let flex = || json!({"flexVolume": {"driver": "example.com/flex"}});
    let failed = "else event Warning VolumeResizeFailed: <error>";
    let (to_claim, to_volume) =
        ("  patch PersistentVolumeClaim/status ns/c: ", "  patch PersistentVolume v: ");
    let yet = "its file system is yet to be resized";
    let grow = |size: &str, is_annotated: bool| {
        let annotate = if is_annotated { String::new() } else { format!("{to_volume}{yet}\n") };
        format!(
            "in sequence\n{to_claim}it grows to {size}\n{to_volume}it grows to {size}\n{to_claim}{yet}\n{annotate}{failed}"
        )
    };
    let wait = || "waiting for PersistentVolumeClaim/ns/c to be resized by the node of its pod".to_owned();
    #[rustfmt::skip]
    let table = [
        // case                               request held   allocated  state                         volume  annotated  plan
        ("to be expanded",                    "3Gi",  "1Gi", "",        "",                           "1Gi",  false,     grow("3Gi", false)),
        ("asked for more meanwhile",          "4Gi",  "1Gi", "3Gi",     "ControllerResizeInProgress", "1Gi",  false,     grow("3Gi", false)),
        ("the volume could not grow so far",  "2Gi",  "1Gi", "3Gi",     "ControllerResizeInfeasible", "1Gi",  false,     grow("2Gi", false)),
        ("the volume grew, status is behind", "3Gi",  "1Gi", "3Gi",     "ControllerResizeInProgress", "3Gi",  false,     grow("3Gi", false)),
        ("the same, annotated",               "3Gi",  "1Gi", "3Gi",     "ControllerResizeInProgress", "3Gi",  true,      grow("3Gi", true)),
        ("its node is yet to resize",         "3Gi",  "1Gi", "3Gi",     "NodeResizePending",          "3Gi",  true,      wait()),
        ("its node resizes",                  "3Gi",  "1Gi", "3Gi",     "NodeResizeInProgress",       "3Gi",  true,      wait()),
        ("its node has failed",               "3Gi",  "1Gi", "3Gi",     "NodeResizeInfeasible",       "3Gi",  true,      format!("in sequence\n{to_claim}{yet}\n{failed}")),
        ("its node is done",                  "3Gi",  "3Gi", "3Gi",     "",                           "3Gi",  true,      "patch PersistentVolume v: its file system was resized".to_owned()),
    ];
    for (case, requested, held, allocated, state, size, annotated, want) in table {
        let claim = claim(requested, held, allocated, state);
        assert_eq!(planned(&claim, &volume(flex(), size, annotated)), want, "{case}");
    }
}

#[test]
fn the_steps_of_a_flex_volume_are_measured() {
    let flex = || json!({"flexVolume": {"driver": "example.com/flex"}});
    #[rustfmt::skip]
    let table = [
        // case               held   state                volume                              measured
        ("to be expanded",    "1Gi", "",                  volume(flex(), "1Gi", false),       Some("example.com/flex")),
        ("its node is slow",  "1Gi", "NodeResizePending", volume(flex(), "3Gi", true),        Some("example.com/flex")),
        ("its node is done",  "3Gi", "",                  volume(flex(), "3Gi", true),        None),
        ("settled",           "3Gi", "",                  volume(flex(), "3Gi", false),       None),
        ("of a driver",       "1Gi", "",                  volume(json!({"csi": {"driver": "d", "volumeHandle": "h"}}), "1Gi", false), None),
    ];
    for (case, held, state, volume, want) in table {
        let claim = claim("3Gi", held, "3Gi", state);
        let now = Timestamp::from_second(100).unwrap();
        let view = View { claim: &claim, volume: Some(&volume), recovers: true, now };
        assert_eq!(operation(&view).as_deref(), want, "{case}");
    }
}

#[test]
fn without_recovery_the_progress_is_only_in_conditions() {
    let source = |mode: &str| json!({"flexVolume": {"driver": "example.com/flex"}, "volumeMode": mode});
    let now = Timestamp::from_second(100).unwrap();
    let patches = |claim: &PersistentVolumeClaim, volume: &PersistentVolume| -> Vec<String> {
        let plan = plan(&View { claim, volume: Some(volume), recovers: false, now });
        plan.writes().iter().map(|write| write.body().unwrap().to_string()).collect()
    };
    let claim = |held: &str| claim("3Gi", held, "", "");
    let all = patches(&claim("1Gi"), &volume(source("Filesystem"), "1Gi", false));
    assert_eq!(all.len(), 4, "{all:?}");
    assert!(all[0].contains("Resizing") && all[2].contains("FileSystemResizePending"), "{all:?}");
    assert!(all.iter().all(|patch| !patch.contains("allocatedResource")), "{all:?}");
    let all = patches(&claim("1Gi"), &volume(source("Filesystem"), "3Gi", true));
    assert_eq!(all.len(), 2, "the volume has grown before: {all:?}");
    let all = patches(&claim("1Gi"), &volume(source("Block"), "1Gi", false));
    assert!(all.len() == 3 && all[2].contains("3Gi") && !all[2].contains("allocatedResource"), "{all:?}");
    let all = patches(&claim("3Gi"), &volume(source("Filesystem"), "3Gi", true));
    assert_eq!(all.len(), 1, "the node is done: {all:?}");
}

#[test]
fn a_block_volume_has_no_file_system_to_resize() {
    let flex = json!({"flexVolume": {"driver": "example.com/flex"}, "volumeMode": "Block"});
    let (claim, volume) = (claim("3Gi", "1Gi", "", ""), volume(flex, "1Gi", false));
    let now = Timestamp::from_second(100).unwrap();
    let plan = plan(&View { claim: &claim, volume: Some(&volume), recovers: true, now });
    let last = "patch PersistentVolumeClaim/status ns/c: it has grown\n  \
                then event Normal VolumeResizeSuccessful: ExpandVolume succeeded for volume ns/c";
    let writes = plan.writes();
    assert_eq!((writes.len(), writes[2].to_string().as_str()), (3, last));
    assert_eq!(
        writes[0].body().unwrap()["metadata"]["annotations"]["volume.kubernetes.io/storage-resizer"],
        "example.com/flex"
    );
    assert_eq!(writes[2].body().unwrap()["status"]["capacity"]["storage"], "3Gi");
    assert_eq!(writes[2].body().unwrap()["status"]["allocatedResourceStatuses"], Value::Null);
}

#[test]
fn the_status_shows_the_progress() {
    let now = Timestamp::from_second(100).unwrap();
    let mut status = claim("3Gi", "1Gi", "", "").status;
    let shown = |status: &flyball_api::persistent_volume_claim::PersistentVolumeClaimStatus| {
        let conditions: Vec<_> = status.conditions.iter().map(|held| held.type_.as_str()).collect();
        let state = status.allocated_resource_statuses.get("storage").unwrap_or_default();
        format!("{} {state}", conditions.join(","))
    };
    progress::begin(&mut status, "3Gi".parse().unwrap(), true, now);
    assert_eq!(shown(&status), "Resizing ControllerResizeInProgress");
    progress::leave_to_node(&mut status, true, now);
    assert_eq!(shown(&status), "Resizing,FileSystemResizePending NodeResizePending");
    progress::begin(&mut status, "4Gi".parse().unwrap(), true, now);
    assert_eq!(shown(&status), "Resizing ControllerResizeInProgress");
    progress::finish(&mut status, "4Gi".parse().unwrap(), true);
    assert_eq!(shown(&status), " ");
    assert_eq!(status.capacity.get("storage"), "4Gi".parse().ok());
}

#[test]
fn a_bound_claim_is_synced_when_sizes_grow() {
    #[rustfmt::skip]
    let table = [
        // case            before                 after                  synced
        ("new",            None,                  ("1Gi", "1Gi"),        true),
        ("the same",       Some(("1Gi", "1Gi")),  ("1Gi", "1Gi"),        false),
        ("asks for more",  Some(("1Gi", "1Gi")),  ("2Gi", "1Gi"),        true),
        ("has more",       Some(("2Gi", "1Gi")),  ("2Gi", "2Gi"),        true),
        ("asks for less",  Some(("2Gi", "1Gi")),  ("1Gi", "1Gi"),        false),
    ];
    for (case, before, after, want) in table {
        let of = |(requested, held): (&str, &str)| Arc::new(claim(requested, held, "", ""));
        let (old, new) = (before.map(of), of(after));
        let change = Change { old: old.as_ref(), new: Some(&new), origin: Origin::Watch };
        assert_eq!(claim_changed(&change).is_some(), want, "{case}");
    }
}
