//! Tables for who makes a claim grow, and what a FlexVolume says while it does.

use std::sync::Arc;

use flyball_api::{PersistentVolume, PersistentVolumeClaim, Timestamp};
use flyball_cache::{Change, Origin};
use serde_json::{Value, json};

use super::plan::{Action, Step, plan};
use super::progress;
use super::triggers::claim_changed;

/// A claim: what it asks for, what it has, what it grows to, and how far that is.
fn claim(wanted: &str, held: &str, allocated: &str, state: &str) -> PersistentVolumeClaim {
    let amount = |text: &str| if text.is_empty() { json!({}) } else { json!({"storage": text}) };
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "c"},
        "spec": {"resources": {"requests": amount(wanted)}},
        "status": {
            "phase": "Bound", "capacity": amount(held), "allocatedResources": amount(allocated),
            "allocatedResourceStatuses": amount(state),
        },
    }))
    .unwrap()
}

fn volume(source: Value, size: &str, noted: bool) -> PersistentVolume {
    let mut spec = source;
    spec["capacity"] = json!({"storage": size});
    let annotations =
        if noted { json!({"volume.alpha.kubernetes.io/pre-resize-capacity": "1Gi"}) } else { json!({}) };
    serde_json::from_value(json!({"metadata": {"name": "v", "annotations": annotations}, "spec": spec}))
        .unwrap()
}

#[test]
fn a_claim_that_is_to_grow_is_left_to_whoever_can() {
    let csi = || json!({"csi": {"driver": "csi.example.com", "volumeHandle": "h"}});
    let ebs = || json!({"awsElasticBlockStore": {"volumeID": "v"}});
    let hand = || Action::Hand { plugin: "kubernetes.io/aws-ebs", driver: "ebs.csi.aws.com" };
    #[rustfmt::skip]
    let table = [
        // case                         wanted  held   volume                       action
        ("it has what it asks for",     "1Gi",  "1Gi", volume(csi(), "1Gi", false), Action::Nothing),
        ("it has more",                 "1Gi",  "2Gi", volume(csi(), "2Gi", false), Action::Nothing),
        ("a driver's",                  "2Gi",  "1Gi", volume(csi(), "1Gi", false), Action::Leave),
        ("a directory",                 "2Gi",  "1Gi", volume(json!({"hostPath": {"path": "/a"}}), "1Gi", false), Action::Leave),
        ("taken over",                  "2Gi",  "1Gi", volume(ebs(), "1Gi", false), hand()),
        ("taken over, its node is due", "2Gi",  "2Gi", volume(ebs(), "2Gi", true),  hand()),
    ];
    for (case, wanted, held, volume, want) in table {
        assert_eq!(plan(&claim(wanted, held, "", ""), &volume), want, "{case}");
    }
}

#[test]
fn a_flex_volume_grows_step_by_step() {
    let flex = || json!({"flexVolume": {"driver": "example.com/flex"}});
    let to = |size: &str| Step::Grow(size.parse().unwrap());
    #[rustfmt::skip]
    let table = [
        // case                               wanted  held   allocated  state                         volume  noted  step
        ("asked to grow",                     "3Gi",  "1Gi", "",        "",                           "1Gi",  false, to("3Gi")),
        ("asked for more while growing",      "4Gi",  "1Gi", "3Gi",     "ControllerResizeInProgress", "1Gi",  false, to("3Gi")),
        ("the volume could not grow so far",  "2Gi",  "1Gi", "3Gi",     "ControllerResizeInfeasible", "1Gi",  false, to("2Gi")),
        ("the volume grew, nobody noted",     "3Gi",  "1Gi", "3Gi",     "ControllerResizeInProgress", "3Gi",  false, to("3Gi")),
        ("its node is due",                   "3Gi",  "1Gi", "3Gi",     "NodeResizePending",          "3Gi",  true,  Step::Wait),
        ("its node is at work",               "3Gi",  "1Gi", "3Gi",     "NodeResizeInProgress",       "3Gi",  true,  Step::Wait),
        ("its node has failed",               "3Gi",  "1Gi", "3Gi",     "NodeResizeInfeasible",       "3Gi",  true,  Step::Retry),
        ("its node is done",                  "3Gi",  "3Gi", "3Gi",     "",                           "3Gi",  true,  Step::Clear),
    ];
    for (case, wanted, held, allocated, state, size, noted, want) in table {
        let planned = plan(&claim(wanted, held, allocated, state), &volume(flex(), size, noted));
        assert_eq!(planned, Action::Flex { driver: "example.com/flex".into(), step: want }, "{case}");
    }
}

#[test]
fn the_status_tells_how_far_it_is() {
    let now = Timestamp::from_second(100).unwrap();
    let mut status = claim("3Gi", "1Gi", "", "").status;
    let said = |status: &flyball_api::persistent_volume_claim::PersistentVolumeClaimStatus| {
        let conditions: Vec<_> = status.conditions.iter().map(|held| held.type_.as_str()).collect();
        let state = status.allocated_resource_statuses.get("storage").unwrap_or_default();
        format!("{} {state}", conditions.join(","))
    };
    progress::begun(&mut status, "3Gi".parse().unwrap(), now);
    assert_eq!(said(&status), "Resizing ControllerResizeInProgress");
    progress::left_to_node(&mut status, now);
    assert_eq!(said(&status), "Resizing,FileSystemResizePending NodeResizePending");
    progress::begun(&mut status, "4Gi".parse().unwrap(), now);
    assert_eq!(said(&status), "Resizing ControllerResizeInProgress");
    progress::finished(&mut status, "4Gi".parse().unwrap());
    assert_eq!(said(&status), " ");
    assert_eq!(status.capacity.get("storage"), "4Gi".parse().ok());
}

#[test]
fn a_bound_claim_is_looked_at_when_sizes_grow() {
    #[rustfmt::skip]
    let table = [
        // case            before                 after                  looked at
        ("new",            None,                  ("1Gi", "1Gi"),        true),
        ("the same",       Some(("1Gi", "1Gi")),  ("1Gi", "1Gi"),        false),
        ("asks for more",  Some(("1Gi", "1Gi")),  ("2Gi", "1Gi"),        true),
        ("has more",       Some(("2Gi", "1Gi")),  ("2Gi", "2Gi"),        true),
        ("asks for less",  Some(("2Gi", "1Gi")),  ("1Gi", "1Gi"),        false),
    ];
    for (case, before, after, want) in table {
        let of = |(wanted, held): (&str, &str)| Arc::new(claim(wanted, held, "", ""));
        let (old, new) = (before.map(of), of(after));
        let change = Change { old: old.as_ref(), new: Some(&new), origin: Origin::Watch };
        assert_eq!(claim_changed(&change).is_some(), want, "{case}");
    }
}
