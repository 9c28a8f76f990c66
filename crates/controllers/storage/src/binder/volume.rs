//! What is to be done about a volume. Pure.

use flyball_api::{PersistentVolume, PersistentVolumeClaim};

use super::claim::Tell;
use super::matching::same_mode;
use crate::names::{AVAILABLE, BOUND, FAILED, PROVISIONED_BY, RELEASED};

/// What to do next about a volume.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is as this phase says.
    Be(&'static str),
    /// Its claim has not been given the volume yet; that is for the claim to be done.
    AskClaim,
    /// It is promised to a claim that cannot use it.
    Mismatch { volume: Tell, claim: Tell },
    /// Its claim has another volume; it becomes free again.
    Free,
    /// Its claim is gone, or has another volume and this one was made for it: it is released, then reclaimed.
    Reclaim,
}

/// The next step for a volume, given the claim that it refers to, if that very claim exists.
pub(crate) fn plan(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) -> Step {
    if !refers_to_one(volume) {
        return Step::Be(AVAILABLE);
    }
    let Some(claim) = claim else { return Step::Reclaim };
    let (name, given) = (&volume.metadata.name, &claim.spec.volume_name);
    if given == name {
        Step::Be(BOUND)
    } else if given.is_empty() {
        unfinished(volume, claim)
    } else if was_made(volume) && volume.spec.persistent_volume_reclaim_policy == "Delete" {
        Step::Reclaim
    } else {
        Step::Free
    }
}

/// Whether a volume refers to one certain claim, and not to none or to whichever comes under a name.
pub(crate) fn refers_to_one(volume: &PersistentVolume) -> bool {
    volume.spec.claim_ref.as_ref().is_some_and(|reference| !reference.uid.is_empty())
}

/// A claim that has not been given the volume yet is to be, unless it could never use it.
fn unfinished(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Step {
    if same_mode(volume, claim) {
        return Step::AskClaim;
    }
    let (volume, claim) = (&volume.metadata.name, &claim.metadata.name);
    let cause = "due to incompatible volumeMode.";
    let to_volume =
        format!("Cannot bind PersistentVolume to requested PersistentVolumeClaim {claim:?} {cause}");
    let to_claim =
        format!("Cannot bind PersistentVolume {volume:?} to requested PersistentVolumeClaim {cause}");
    Step::Mismatch {
        volume: Tell::warning("VolumeMismatch", to_volume),
        claim: Tell::warning("VolumeMismatch", to_claim),
    }
}

fn was_made(volume: &PersistentVolume) -> bool {
    volume.metadata.annotations.contains_key(PROVISIONED_BY)
}

/// Whether users already see that its claim is gone. A failure stays visible while it is tried again.
pub(crate) fn is_released(volume: &PersistentVolume) -> bool {
    matches!(volume.status.phase.as_str(), RELEASED | FAILED)
}

/// Whether a volume, seen as it is now, may be emptied or deleted: the claim that it refers to is gone or has another.
pub(crate) fn may_reclaim(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) -> bool {
    let Some(reference) = volume.spec.claim_ref.as_ref().filter(|_| refers_to_one(volume)) else {
        return false;
    };
    match claim.filter(|claim| claim.metadata.uid == reference.uid) {
        None => true,
        Some(claim) => !claim.spec.volume_name.is_empty() && claim.spec.volume_name != volume.metadata.name,
    }
}

/// What becomes of a volume whose claim is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// It stays for people to look at.
    Retain,
    /// What is behind it is deleted, then it.
    Delete,
    /// What is on it is deleted, and it is free again.
    Recycle,
    /// A policy that nobody knows.
    Unknown,
}

/// The policy of a volume.
pub(crate) fn policy(volume: &PersistentVolume) -> Policy {
    match volume.spec.persistent_volume_reclaim_policy.as_str() {
        "Retain" => Policy::Retain,
        "Delete" => Policy::Delete,
        "Recycle" => Policy::Recycle,
        _ => Policy::Unknown,
    }
}
