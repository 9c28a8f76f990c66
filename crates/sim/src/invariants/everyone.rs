//! Rules for every controller.

use serde_json::Value;

use super::values::{ensure, finalizers, is_deleting, uid};
use super::{Rule, ServerState, Write, rule};

/// The rules; a violation is attributed to the controller that made the write.
#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    rule("", "a delete has the uid as precondition",                           delete_names_its_object),
    rule("", "an update has the resourceVersion",                              update_names_its_state),
    rule("", "observedGeneration never decreases, nor exceeds the generation", observed),
    rule("", "a controller removes no finalizer of another",                   own_finalizers),
    rule("", "a created object has an owner that exists or existed",           owners),
    rule("", "a former leader writes nothing",                                 one_leader),
];

/// Without the uid, a late delete may hit a new object of the same name.
fn delete_names_its_object(_: &ServerState, write: &Write) -> Result<(), String> {
    let preconditions = &write.body["preconditions"];
    let is_named = preconditions["uid"] == write.before["metadata"]["uid"]
        || preconditions["resourceVersion"].is_string();
    // Contents of namespaces are deleted by name: no new object can appear there.
    let may_do_without = write.account == "namespace-controller";
    ensure(write.verb != "delete" || is_named || may_do_without, || format!("sent {}", write.body))
}

fn update_names_its_state(_: &ServerState, write: &Write) -> Result<(), String> {
    let version = &write.body["metadata"]["resourceVersion"];
    let is_named = version.as_str().is_some_and(|version| !version.is_empty());
    ensure(write.verb != "update" || is_named, || format!("sent {}", write.body["metadata"]))
}

fn observed(_: &ServerState, write: &Write) -> Result<(), String> {
    let observed = |object: &Value| object["status"]["observedGeneration"].as_i64().unwrap_or(0);
    if uid(&write.before) != uid(&write.after) || write.subresource != "status" {
        return Ok(());
    }
    let (before, after) = (observed(&write.before), observed(&write.after));
    let now = write.after["metadata"]["generation"].as_i64().unwrap_or(i64::MAX);
    ensure(before <= after && after <= now, || format!("{before}, then {after} of {now}"))
}

/// The account that owns a finalizer.
const FINALIZERS: &[(&str, &str)] = &[
    ("batch.kubernetes.io/job-tracking", "job-controller"),
    ("external-provisioner.volume.kubernetes.io/finalizer", "persistent-volume-binder"),
    ("foregroundDeletion", "generic-garbage-collector"),
    ("kubernetes.io/pv-controller", "persistent-volume-binder"),
    ("kubernetes.io/pv-protection", "pv-protection-controller"),
    ("kubernetes.io/pvc-protection", "pvc-protection-controller"),
    ("kubernetes.io/vac-protection", "volumeattributesclass-protection-controller"),
    ("networking.k8s.io/service-cidr-finalizer", "service-cidrs-controller"),
    ("orphan", "generic-garbage-collector"),
    ("resource.kubernetes.io/delete-protection", "resource-claim-controller"),
    ("scheduling.k8s.io/podgroup-protection", "podgroup-protection-controller"),
    ("service.kubernetes.io/load-balancer-cleanup", "service-controller"),
];

fn own_finalizers(_: &ServerState, write: &Write) -> Result<(), String> {
    if !matches!(write.verb, "update" | "patch") || write.before["metadata"]["finalizers"].is_null() {
        return Ok(());
    }
    let is_own = |gone: &str| FINALIZERS.contains(&(gone, write.account.as_str()));
    let stays = |finalizer: &str| finalizers(&write.after).any(|left| left == finalizer);
    let mut taken = finalizers(&write.before).filter(|finalizer| !stays(finalizer) && !is_own(finalizer));
    taken.next().map_or(Ok(()), |finalizer| Err(format!("{finalizer} is gone")))
}

/// With an owner that never existed the object is garbage collected as soon as it is seen.
fn owners(state: &ServerState, write: &Write) -> Result<(), String> {
    if write.verb != "create" || !write.subresource.is_empty() {
        return Ok(());
    }
    for owner in super::values::items(&write.after["metadata"]["ownerReferences"]) {
        let (api_version, kind) =
            (super::values::text(&owner["apiVersion"]), super::values::text(&owner["kind"]));
        let Some(resource) = state.server().inner().catalog.by_kind(api_version, kind) else { continue };
        let shelf = &resource.shelf;
        let versions = state.versions(&shelf.group, &shelf.plural, super::values::text(&owner["uid"]));
        ensure(!versions.is_empty(), || format!("there was never a {kind} {}", owner["uid"]))?;
        let was_going = versions.iter().all(|version| is_deleting(version));
        ensure(!was_going, || format!("{kind} {} was going when it was first seen", owner["name"]))?;
    }
    Ok(())
}

fn one_leader(_: &ServerState, write: &Write) -> Result<(), String> {
    ensure(!write.is_by_former_leader, || "another process leads by now".to_owned())
}
