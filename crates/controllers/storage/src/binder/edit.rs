//! Claims and volumes as they are to be written when they are bound, freed or provisioned. Pure.

use flyball_api::persistent_volume_claim::PersistentVolumeClaimStatus;
use flyball_api::{PersistentVolume, PersistentVolumeClaim, Quantity, Resource};
use serde_json::{Error, json};
use smol_str::format_smolstr;

use super::matching::is_promised;
use crate::migration;
use crate::names::{
    BETA_PROVISIONER, BIND_COMPLETED, BOUND, BOUND_BY_CONTROLLER, PENDING, PRE_RESIZE, PROVISIONER, STORAGE,
};

/// The reference to a claim, as volumes hold it.
pub(crate) fn reference(claim: &PersistentVolumeClaim) -> serde_json::Value {
    let (kind, meta) = (PersistentVolumeClaim::TYPE, &claim.metadata);
    json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "namespace": meta.namespace, "name": meta.name,
        "uid": meta.uid, "resourceVersion": format_smolstr!("{}", meta.resource_version),
    })
}

/// The volume with the reference to a claim; `None` if it has it.
pub(crate) fn taken(
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
) -> Result<Option<PersistentVolume>, Error> {
    let was_promised = is_promised(volume, claim);
    let is_exact = was_promised
        && volume.spec.claim_ref.as_ref().is_some_and(|reference| reference.uid == claim.metadata.uid);
    let is_marked = was_promised || volume.metadata.annotations.contains_key(BOUND_BY_CONTROLLER);
    if is_exact && is_marked {
        return Ok(None);
    }
    let mut volume = volume.clone();
    if !is_exact {
        volume.spec = volume.spec.edited(|spec| spec["claimRef"] = reference(claim))?;
    }
    if !is_marked {
        volume.metadata.annotations = volume.metadata.annotations.with(BOUND_BY_CONTROLLER, "yes");
    }
    Ok(Some(volume))
}

/// The volume without the reference to its claim. If a user has pre-bound it to a claim, the name of the claim is kept.
pub(crate) fn freed(volume: &PersistentVolume) -> Result<PersistentVolume, Error> {
    let mut volume = volume.clone();
    let annotations = &volume.metadata.annotations;
    if annotations.contains_key(BOUND_BY_CONTROLLER) {
        volume.metadata.annotations = annotations.without(BOUND_BY_CONTROLLER);
        volume.spec = volume.spec.edited(|spec| {
            if let Some(spec) = spec.as_object_mut() {
                spec.remove("claimRef");
            }
        })?;
    } else {
        volume.spec = volume.spec.edited(|spec| {
            if let Some(reference) = spec["claimRef"].as_object_mut() {
                reference.remove("uid");
            }
        })?;
    }
    Ok(volume)
}

/// The claim with the name of its volume; `None` if it has it.
pub(crate) fn given(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Result<Option<PersistentVolumeClaim>, Error> {
    let (mut claim, before) = (claim.clone(), claim);
    let annotations = &mut claim.metadata.annotations;
    if before.spec.volume_name != volume.metadata.name {
        claim.spec = claim.spec.edited(|spec| spec["volumeName"] = json!(volume.metadata.name))?;
        if !annotations.contains_key(BOUND_BY_CONTROLLER) {
            *annotations = annotations.with(BOUND_BY_CONTROLLER, "yes");
        }
    }
    if !annotations.contains_key(BIND_COMPLETED) {
        *annotations = annotations.with(BIND_COMPLETED, "yes");
    }
    Ok((claim != *before).then_some(claim))
}

/// The claim with a class.
pub(crate) fn classed(claim: &PersistentVolumeClaim, class: &str) -> Result<PersistentVolumeClaim, Error> {
    let spec = claim.spec.edited(|spec| spec["storageClassName"] = json!(class))?;
    Ok(PersistentVolumeClaim { spec, ..claim.clone() })
}

/// The claim with the provisioner annotation; `None` if it is set already.
pub(crate) fn with_provisioner(
    claim: &PersistentVolumeClaim,
    provisioner: &str,
) -> Option<PersistentVolumeClaim> {
    let annotations = &claim.metadata.annotations;
    if annotations.get(PROVISIONER) == Some(provisioner) {
        return None;
    }
    let annotations = annotations.with(BETA_PROVISIONER, provisioner).with(PROVISIONER, provisioner);
    let mut claim = claim.clone();
    claim.metadata.annotations = migration::of_claim_annotations(&annotations).unwrap_or(annotations);
    Some(claim)
}

/// The status of a claim that has no volume.
pub(crate) fn status_without(claim: &PersistentVolumeClaim, phase: &str) -> PersistentVolumeClaimStatus {
    PersistentVolumeClaimStatus {
        phase: phase.into(),
        access_modes: vec![],
        capacity: Default::default(),
        current_volume_attributes_class_name: None,
        ..claim.status.clone()
    }
}

/// The status of a claim that has a volume. Capacity and attributes class are the volume's when the claim is bound; later
/// the resizer keeps them, as a file system may be resized after its volume.
pub(crate) fn status_with(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
    attributes: bool,
) -> PersistentVolumeClaimStatus {
    let mut status = claim.status.clone();
    status.access_modes = volume.spec.access_modes.clone();
    if status.phase != BOUND {
        let sizes = &volume.spec.capacity;
        let volume_size = sizes.get(STORAGE);
        if let Some(before) = volume.metadata.annotations.get(PRE_RESIZE) {
            let before = before.parse::<Quantity>().ok().or(volume_size).unwrap_or_default();
            status.capacity.set(STORAGE, before);
        } else if status.capacity.get(STORAGE) != volume_size {
            status.capacity = sizes.clone();
        }
    }
    if status.phase == PENDING && attributes {
        status.current_volume_attributes_class_name = volume.spec.volume_attributes_class_name.clone();
    }
    status.phase = BOUND.into();
    status
}
