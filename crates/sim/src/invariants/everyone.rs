//! Rules for every controller.

use serde_json::Value;

use super::values::{ensure, finalizers, is_deleting, uid};
use super::{Rule, World, Write, rule};

/// The rules; a violation is told of whoever made the write.
#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    rule("", "a delete names the object that it means",                        delete_names_its_object),
    rule("", "an update names the state that it was made from",                update_names_its_state),
    rule("", "what was observed never moves back, nor ahead of what there is", observed),
    rule("", "nobody takes the finalizer of another away",                     own_finalizers),
    rule("", "what is created is wanted by an owner that exists or existed",   owners),
];

/// Without the uid, a delete that comes late hits whoever has the name by then.
fn delete_names_its_object(_: &World, write: &Write) -> Result<(), String> {
    let preconditions = &write.body["preconditions"];
    let is_named = preconditions["uid"] == write.before["metadata"]["uid"]
        || preconditions["resourceVersion"].is_string();
    // Contents of namespaces go by name, whoever has it: nothing else can come there any more.
    let may_do_without = write.account == "namespace-controller";
    ensure(write.verb != "delete" || is_named || may_do_without, || format!("sent {}", write.body))
}

fn update_names_its_state(_: &World, write: &Write) -> Result<(), String> {
    let version = &write.body["metadata"]["resourceVersion"];
    let is_named = version.as_str().is_some_and(|version| !version.is_empty());
    ensure(write.verb != "update" || is_named, || format!("sent {}", write.body["metadata"]))
}

fn observed(_: &World, write: &Write) -> Result<(), String> {
    let observed = |object: &Value| object["status"]["observedGeneration"].as_i64().unwrap_or(0);
    if uid(&write.before) != uid(&write.after) || write.subresource != "status" {
        return Ok(());
    }
    let (before, after) = (observed(&write.before), observed(&write.after));
    let now = write.after["metadata"]["generation"].as_i64().unwrap_or(i64::MAX);
    ensure(before <= after && after <= now, || format!("{before}, then {after} of {now}"))
}

/// Which account a finalizer belongs to.
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
];

fn own_finalizers(_: &World, write: &Write) -> Result<(), String> {
    if !matches!(write.verb, "update" | "patch") || write.before["metadata"]["finalizers"].is_null() {
        return Ok(());
    }
    let is_own = |gone: &str| FINALIZERS.contains(&(gone, write.account.as_str()));
    let stays = |finalizer: &str| finalizers(&write.after).any(|left| left == finalizer);
    let mut taken = finalizers(&write.before).filter(|finalizer| !stays(finalizer) && !is_own(finalizer));
    taken.next().map_or(Ok(()), |finalizer| Err(format!("{finalizer} is gone")))
}

/// An owner that never was would have the object collected as soon as it is seen.
fn owners(world: &World, write: &Write) -> Result<(), String> {
    if write.verb != "create" || !write.subresource.is_empty() {
        return Ok(());
    }
    for owner in super::values::items(&write.after["metadata"]["ownerReferences"]) {
        let (api_version, kind) =
            (super::values::text(&owner["apiVersion"]), super::values::text(&owner["kind"]));
        let Some(resource) = world.server().inner().catalog.by_kind(api_version, kind) else { continue };
        let shelf = &resource.shelf;
        let versions = world.versions(&shelf.group, &shelf.plural, super::values::text(&owner["uid"]));
        ensure(!versions.is_empty(), || format!("there was never a {kind} {}", owner["uid"]))?;
        let was_going = versions.iter().all(|version| is_deleting(version));
        ensure(!was_going, || format!("{kind} {} was going when it was first seen", owner["name"]))?;
    }
    Ok(())
}
