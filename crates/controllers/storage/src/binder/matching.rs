//! Which volume suits a claim. Pure.

use std::sync::Arc;

use flyball_api::selector::InvalidSelector;
use flyball_api::{PersistentVolume, PersistentVolumeClaim, Quantity, ResourceList, Selector};
use smol_str::SmolStr;

use crate::class;
use crate::names::{AVAILABLE, PENDING, STORAGE};

/// Whether a volume is promised or bound to a claim: by name, and by uid if it says one.
pub(crate) fn is_promised(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    volume.spec.claim_ref.as_ref().is_some_and(|to| {
        let meta = &claim.metadata;
        to.name == meta.name && to.namespace == meta.namespace && (to.uid.is_empty() || to.uid == meta.uid)
    })
}

/// The best of `volumes` for a claim that names none: first those with the fewest access modes, then those that are promised
/// to the claim, then the smallest. If the claim `waits` for a pod, volumes that are not promised are left to the
/// scheduler. `attributes`: see [`attributes_objection`].
pub(crate) fn best<'a>(
    claim: &PersistentVolumeClaim,
    volumes: &'a [Arc<PersistentVolume>],
    waits: bool,
    attributes: bool,
) -> Result<Option<&'a Arc<PersistentVolume>>, InvalidSelector> {
    let selector = claim.spec.selector.as_ref().map(|selector| selector.compile()).transpose()?;
    let suits = |volume: &&Arc<PersistentVolume>| {
        let is_free = volume.spec.claim_ref.is_none() && !waits && volume.status.phase == AVAILABLE;
        is_possible(volume, claim, attributes)
            && (is_promised(volume, claim) || is_free && is_choice(volume, claim, selector.as_ref()))
    };
    Ok(volumes.iter().filter(suits).min_by_key(|volume| {
        let modes = distinct(&volume.spec.access_modes);
        let size = size(&volume.spec.capacity);
        (modes.len(), modes, !is_promised(volume, claim), size, volume.metadata.name.clone())
    }))
}

/// Whether a volume that suits a claim was created before it and has no phase yet. If the two are in separate etcds, it is a
/// guess, and the volume gets its phase soon in any case.
pub(crate) fn is_coming(
    claim: &PersistentVolumeClaim,
    volumes: &[Arc<PersistentVolume>],
    attributes: bool,
) -> Result<bool, InvalidSelector> {
    let selector = claim.spec.selector.as_ref().map(|selector| selector.compile()).transpose()?;
    Ok(volumes.iter().any(|volume| {
        let is_new = volume.spec.claim_ref.is_none() && ["", PENDING].contains(&volume.status.phase.as_str());
        let was_first = volume.metadata.resource_version < claim.metadata.resource_version;
        let suits = is_possible(volume, claim, attributes) && is_choice(volume, claim, selector.as_ref());
        is_new && was_first && suits
    }))
}

/// The conditions on every volume that a claim gets without naming it, promised or not.
fn is_possible(volume: &PersistentVolume, claim: &PersistentVolumeClaim, attributes: bool) -> bool {
    size(&volume.spec.capacity) >= size(&claim.spec.resources.requests)
        && same_mode(volume, claim)
        && attributes_objection(volume, claim, attributes).is_none()
        && !volume.metadata.is_deleting()
        && has_modes(volume, claim)
}

/// The further conditions on a volume that is promised to no claim.
fn is_choice(volume: &PersistentVolume, claim: &PersistentVolumeClaim, selector: Option<&Selector>) -> bool {
    selector.is_none_or(|selector| selector.matches(&volume.metadata.labels))
        && class::of_volume(volume) == class::of_claim(claim)
}

/// Why a volume that a claim names does not suit it.
pub(crate) fn objection(
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
    attributes: bool,
) -> Option<String> {
    let too_small = size(&volume.spec.capacity).value() < size(&claim.spec.resources.requests).value();
    let attributes = attributes_objection(volume, claim, attributes);
    match () {
        () if volume.metadata.is_deleting() => {
            Some(format!("the volume is marked for deletion {:?}", volume.metadata.name))
        }
        () if too_small => Some("requested PV is too small".into()),
        () if class::of_volume(volume) != class::of_claim(claim) => {
            Some("storageClassName does not match".into())
        }
        () if attributes.is_some() => attributes.map(Into::into),
        () if !same_mode(volume, claim) => Some("incompatible volumeMode".into()),
        () if !has_modes(volume, claim) => Some("incompatible accessMode".into()),
        () => None,
    }
}

/// Whether volume and claim have the same volume mode.
pub(crate) fn same_mode(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    mode(volume.spec.volume_mode.as_ref()) == mode(claim.spec.volume_mode.as_ref())
}

/// A volume mode, with its default.
pub(crate) fn mode(mode: Option<&SmolStr>) -> &str {
    mode.map_or("Filesystem", SmolStr::as_str)
}

/// What speaks against the attributes class of a volume. `attributes`: whether there are such classes
/// (`VolumeAttributesClass`).
fn attributes_objection(
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
    attributes: bool,
) -> Option<&'static str> {
    let of_volume = volume.spec.volume_attributes_class_name.as_deref().unwrap_or_default();
    let of_claim = attributes_class(claim);
    match attributes {
        true if of_volume != of_claim => Some("volumeAttributesClassName does not match"),
        false if !of_volume.is_empty() || !of_claim.is_empty() => Some(
            "volumeAttributesClassName is not supported when the feature-gate VolumeAttributesClass is disabled",
        ),
        _ => None,
    }
}

/// The VolumeAttributesClass that a claim requests; empty if none.
pub(crate) fn attributes_class(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.volume_attributes_class_name.as_deref().unwrap_or_default()
}

fn has_modes(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    claim.spec.access_modes.iter().all(|mode| volume.spec.access_modes.contains(mode))
}

fn distinct(modes: &[SmolStr]) -> Vec<SmolStr> {
    let mut modes = modes.to_vec();
    modes.sort_unstable();
    modes.dedup();
    modes
}

/// The amount of storage in a list of resources.
pub(crate) fn size(amounts: &ResourceList) -> Quantity {
    amounts.get(STORAGE).unwrap_or(Quantity::ZERO)
}
