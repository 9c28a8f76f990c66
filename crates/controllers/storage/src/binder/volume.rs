//! What is to be done about a volume. Pure.

use std::sync::Arc;

use flyball_api::{Key, PersistentVolume, PersistentVolumeClaim, StorageClass};
use flyball_runtime::events::ObjectRef;
use flyball_runtime::{Event, Plan, Waiting};

use super::matching::same_mode;
use super::reclaim::{self, Live};
use super::triggers::claim_of;
use super::writes::{self, Tag, Turn};
use crate::migration;
use crate::names::{AVAILABLE, BOUND, FAILED, PROVISIONED_BY, RELEASED};

/// Everything that the decision depends on. Fields that are `None` at first are read when [`need`] requires them.
pub(crate) struct View {
    pub(crate) volume: Arc<PersistentVolume>,
    /// The claim of the name that the volume refers to, as the cache has it.
    pub(crate) cached: Option<Arc<PersistentVolumeClaim>>,
    /// The same as the server has it.
    pub(crate) live_claim: Option<Option<Arc<PersistentVolumeClaim>>>,
    /// The class of the volume.
    pub(crate) class: Option<Arc<StorageClass>>,
    /// What the server has when the volume is to be reclaimed.
    pub(crate) live: Option<Live>,
    /// Whether its directory was removed.
    pub(crate) removed: Option<Result<(), String>>,
    /// Whether an earlier sync has deleted the volume on the server.
    pub(crate) is_deletion_requested: bool,
    /// Whether its directory could not be removed, or its recycler pod has failed, and the next attempt is not due yet.
    pub(crate) is_backing_off: bool,
}

/// What has to be read or done before the volume can be planned for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The claim as the server has it: a volume is not released because a cache is behind.
    Claim(Key),
    /// The volume as the server has it: reclaiming cannot be undone.
    Volume,
    /// The directory of the volume has to be removed.
    Removal(Option<String>),
}

/// What to do next about a volume.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// Annotations and finalizers have to follow the provisioner.
    Migrate(Box<PersistentVolume>),
    /// The claim has to be read first.
    ReadClaim(Key),
    SetPhase(&'static str),
    /// Its claim does not name the volume yet; the claim is to be synced.
    SyncClaim,
    /// It is promised to a claim that cannot use it.
    Mismatch {
        volume: Event,
        claim: Event,
    },
    /// Its claim has another volume; it becomes available again.
    Free,
    /// Its claim is gone, or has another volume and this one was provisioned for it.
    Release,
    /// It is released, and is treated as its policy says.
    Reclaim,
}

/// What is needed next; `None` when [`plan`] has everything that it needs.
pub(crate) fn need(view: &View) -> Option<Need> {
    match step(view) {
        Step::ReadClaim(key) => Some(Need::Claim(key)),
        Step::Reclaim => reclaim::need(view),
        _ => None,
    }
}

/// The writes and events of the next step.
pub(crate) fn plan(view: &View) -> Plan<Tag> {
    match step(view) {
        Step::Migrate(volume) => Plan::of([writes::volume(*volume, "its provisioner has changed")]),
        Step::ReadClaim(_) => Plan::default(),
        Step::SetPhase(phase) => Plan::of(writes::phase(&view.volume, phase, "", Turn::First)),
        Step::SyncClaim => {
            let claim = claim_of(&view.volume);
            let wait = |claim: Key| Waiting::on::<PersistentVolumeClaim>(&claim, "to be bound to the volume");
            Plan::default().waiting_for(claim.map(wait))
        }
        Step::Mismatch { volume, claim } => Plan::of([volume, claim]),
        Step::Free => writes::planned(writes::free(&view.volume)),
        Step::Release => Plan::of(writes::phase(&view.volume, RELEASED, "", Turn::First)),
        Step::Reclaim => reclaim::plan(view),
    }
}

/// The claim that has to be synced before there is more to do for the volume.
pub(crate) fn claim_to_sync(view: &View) -> Option<Key> {
    claim_of(&view.volume).filter(|_| step(view) == Step::SyncClaim)
}

/// The next step for a volume.
pub(crate) fn step(view: &View) -> Step {
    let volume = &*view.volume;
    if let Some(metadata) = migration::of_volume_metadata(volume) {
        return Step::Migrate(Box::new(PersistentVolume { metadata, ..volume.clone() }));
    }
    if !refers_to_one(volume) {
        return Step::SetPhase(AVAILABLE);
    }
    let claim = match claim(view) {
        Ok(claim) => claim,
        Err(key) => return Step::ReadClaim(key),
    };
    let is_provisioned = volume.metadata.annotations.contains_key(PROVISIONED_BY);
    match claim {
        Some(claim) if claim.spec.volume_name == volume.metadata.name => Step::SetPhase(BOUND),
        Some(claim) if claim.spec.volume_name.is_empty() => unfinished(volume, claim),
        Some(_) if !is_provisioned || policy(volume) != Policy::Delete => Step::Free,
        _ if is_released(volume) => Step::Reclaim,
        _ => Step::Release,
    }
}

/// The claim with the uid in `spec.claimRef`, if it exists; an error with its key if it must be read from the server first. That the
/// cache does not have it is sufficient only for a volume that is released already.
fn claim(view: &View) -> Result<Option<&PersistentVolumeClaim>, Key> {
    let (Some(reference), Some(key)) = (&view.volume.spec.claim_ref, claim_of(&view.volume)) else {
        return Ok(None);
    };
    let is_meant = |claim: &&PersistentVolumeClaim| claim.metadata.uid == reference.uid;
    match (&view.cached, &view.live_claim) {
        (None, _) if is_released(&view.volume) => Ok(None),
        (Some(claim), _) if is_meant(&&**claim) => Ok(Some(claim)),
        (_, Some(live)) => Ok(live.as_deref().filter(is_meant)),
        (_, None) => Err(key),
    }
}

/// A claim that does not name the volume yet is to be bound to it, unless it could never use it.
fn unfinished(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Step {
    if same_mode(volume, claim) {
        return Step::SyncClaim;
    }
    let about = ObjectRef::of(claim);
    let (volume, claim) = (&volume.metadata.name, &claim.metadata.name);
    let cause = "due to incompatible volumeMode.";
    let to_volume =
        format!("Cannot bind PersistentVolume to requested PersistentVolumeClaim {claim:?} {cause}");
    let to_claim =
        format!("Cannot bind PersistentVolume {volume:?} to requested PersistentVolumeClaim {cause}");
    Step::Mismatch {
        volume: Event::warning("VolumeMismatch", to_volume),
        claim: Event::warning("VolumeMismatch", to_claim).about(about),
    }
}

/// Whether a volume refers to one certain claim by uid, and not to none or to any claim of a name.
pub(crate) fn refers_to_one(volume: &PersistentVolume) -> bool {
    volume.spec.claim_ref.as_ref().is_some_and(|reference| !reference.uid.is_empty())
}

/// Whether the phase of a volume says that its claim is gone. A failure stays visible while reclaiming is tried again.
pub(crate) fn is_released(volume: &PersistentVolume) -> bool {
    matches!(volume.status.phase.as_str(), RELEASED | FAILED)
}

/// Whether a volume may be recycled or deleted: the claim that it refers to is gone or has another volume.
pub(crate) fn may_reclaim(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) -> bool {
    let Some(reference) = volume.spec.claim_ref.as_ref().filter(|_| refers_to_one(volume)) else {
        return false;
    };
    match claim.filter(|claim| claim.metadata.uid == reference.uid) {
        None => true,
        Some(claim) => !claim.spec.volume_name.is_empty() && claim.spec.volume_name != volume.metadata.name,
    }
}

/// The next step for a volume whose claim is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    Retain,
    Delete,
    Recycle,
    Unknown,
}

pub(crate) fn policy(volume: &PersistentVolume) -> Policy {
    match volume.spec.persistent_volume_reclaim_policy.as_str() {
        "Retain" => Policy::Retain,
        "Delete" => Policy::Delete,
        "Recycle" => Policy::Recycle,
        _ => Policy::Unknown,
    }
}
