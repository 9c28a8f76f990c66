//! Which claims and volumes to sync after a change, and the indexes of volumes. Pure.

use flyball_api::pod::Pod;
use flyball_api::{Key, Object, PersistentVolume, PersistentVolumeClaim};
use flyball_cache::{Change, Index, Store};
use smol_str::format_smolstr;

use super::recycler::volume_of;
use crate::class;

/// Volumes by the claim that they refer to, as `namespace/name`.
pub(super) const BY_CLAIM_REF: Index<PersistentVolume> = Index::new("claim", |volume, emit| {
    if let Some(claim) = claim_of(volume) {
        emit(&format_smolstr!("{claim}"));
    }
});

/// Volumes that refer to no claim, by their class.
pub(super) const UNCLAIMED_BY_CLASS: Index<PersistentVolume> = Index::new("free of class", |volume, emit| {
    if volume.spec.claim_ref.is_none() {
        emit(class::of_volume(volume));
    }
});

/// The claim that a volume refers to.
pub(super) fn claim_of(volume: &PersistentVolume) -> Option<Key> {
    let reference = volume.spec.claim_ref.as_ref()?;
    Some(Key::new(reference.namespace.as_str(), reference.name.as_str()))
}

/// The claim of a deleted volume.
pub(super) fn volume_deleted(change: &Change<'_, PersistentVolume>) -> Option<Key> {
    change.old.filter(|_| change.new.is_none()).and_then(|volume| claim_of(volume))
}

/// The volumes of a deleted claim: the one that it names, and those that refer to it.
pub(super) fn claim_deleted(
    change: &Change<'_, PersistentVolumeClaim>,
    volumes: &Store<PersistentVolume>,
) -> Vec<Key> {
    let Some(claim) = change.old.filter(|_| change.new.is_none()) else { return vec![] };
    let referring = volumes.by(&BY_CLAIM_REF, &format_smolstr!("{}", claim.key()));
    let mut keys: Vec<Key> = referring.iter().map(|volume| volume.key()).collect();
    if !claim.spec.volume_name.is_empty() {
        keys.push(Key::cluster(claim.spec.volume_name.as_str()));
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// The volume of a recycler pod.
pub(super) fn pod_changed(change: &Change<'_, Pod>) -> Option<Key> {
    volume_of(&change.object().metadata.name).map(Key::cluster)
}
