//! Which claims and volumes a resync has to look at. Pure.

use std::sync::Arc;

use flyball_api::{Key, Object, PersistentVolume, PersistentVolumeClaim};
use flyball_cache::Store;

use super::triggers::claim_of;
use super::volume::{Policy, policy, refers_to_one};
use crate::names::{AVAILABLE, BIND_COMPLETED, BOUND, RELEASED};

/// Whether claim and volume are bound to each other, and their phases say so.
fn are_bound(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    claim.spec.volume_name == volume.metadata.name
        && claim.metadata.annotations.contains_key(BIND_COMPLETED)
        && claim.status.phase == BOUND
        && volume.status.phase == BOUND
        && refers_to(volume, claim)
}

/// Whether a volume refers to this very claim, and not to another one of its name.
fn refers_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    volume.spec.claim_ref.as_ref().is_some_and(|reference| reference.uid == claim.metadata.uid)
}

/// Whether a claim needs no resync: it has its volume, and its status has the access modes.
fn is_claim_settled(claim: &PersistentVolumeClaim, volume: Option<&PersistentVolume>) -> bool {
    volume.is_some_and(|volume| {
        are_bound(claim, volume) && claim.status.access_modes == volume.spec.access_modes
    })
}

/// Whether a volume needs no resync.
fn is_volume_settled(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) -> bool {
    match volume.status.phase.as_str() {
        AVAILABLE => !refers_to_one(volume),
        BOUND => claim.is_some_and(|claim| are_bound(claim, volume)),
        RELEASED => claim.is_none_or(|claim| !refers_to(volume, claim)) && policy(volume) == Policy::Retain,
        _ => false,
    }
}

/// The claims and volumes for which something may be left to do.
pub(super) fn unsettled(
    claims: &Store<PersistentVolumeClaim>,
    volumes: &Store<PersistentVolume>,
) -> (Vec<Key>, Vec<Key>) {
    let is_claim_unsettled = |claim: &Arc<PersistentVolumeClaim>| {
        let volume = volumes.get(&Key::cluster(claim.spec.volume_name.as_str()));
        !is_claim_settled(claim, volume.as_deref())
    };
    let is_volume_unsettled = |volume: &Arc<PersistentVolume>| {
        let claim = claim_of(volume).and_then(|key| claims.get(&key));
        !is_volume_settled(volume, claim.as_deref())
    };
    let claims = claims.list().into_iter().filter(is_claim_unsettled).map(|claim| claim.key());
    let volumes = volumes.list().into_iter().filter(is_volume_unsettled).map(|volume| volume.key());
    (claims.collect(), volumes.collect())
}
