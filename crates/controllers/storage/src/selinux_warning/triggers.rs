//! Which pods to sync after a change. Pure.

use std::sync::Arc;

use flyball_api::{CSIDriver, Key, PersistentVolume, PersistentVolumeClaim};
use flyball_cache::{Change, Index, Store};
use smol_str::format_smolstr;

use super::mounts::MountingPod;
use crate::usage::claim_name;

/// Pods by the claims that they use, as `namespace/name`.
pub(super) const BY_CLAIM: Index<MountingPod> = Index::new("claim", |pod, emit| {
    for volume in &pod.volumes {
        if let Some(name) = claim_name(&pod.metadata, volume) {
            emit(&format_smolstr!("{}/{name}", pod.metadata.namespace));
        }
    }
});

/// A pod that is new or deleted. What matters of a pod never changes, but another pod may have its name.
pub(super) fn pod_changed(change: &Change<'_, MountingPod>) -> Option<Key> {
    let is_same = change.old.map(|pod| &pod.metadata.uid) == change.new.map(|pod| &pod.metadata.uid);
    (!is_same || !change.origin.is_fresh()).then(|| change.key())
}

/// The pods that use a claim which was bound or has another volume.
pub(super) fn claim_changed(
    change: &Change<'_, PersistentVolumeClaim>,
    pods: &Store<MountingPod>,
) -> Vec<Key> {
    let binding = |claim: Option<&Arc<PersistentVolumeClaim>>| {
        claim.map(|claim| (claim.spec.volume_name.clone(), claim.status.phase.clone()))
    };
    if binding(change.old) == binding(change.new) {
        return vec![];
    }
    users(pods, &change.key())
}

/// The pods that use the claim of a volume, if the volume has got another claim.
pub(super) fn volume_changed(change: &Change<'_, PersistentVolume>, pods: &Store<MountingPod>) -> Vec<Key> {
    let claim =
        |volume: Option<&Arc<PersistentVolume>>| volume.and_then(|volume| volume.spec.claim_ref.clone());
    let (old, new) = (claim(change.old), claim(change.new));
    match new.filter(|new| old.as_ref() != Some(new)) {
        Some(claim) => users(pods, &Key::new(claim.namespace.as_str(), claim.name.as_str())),
        None => vec![],
    }
}

/// Whether a driver has begun or ceased to mount with labels.
pub(super) fn is_driver_changed(change: &Change<'_, CSIDriver>) -> bool {
    let mounts = |driver: Option<&Arc<CSIDriver>>| {
        driver.is_some_and(|driver| driver.spec.se_linux_mount == Some(true))
    };
    mounts(change.old) != mounts(change.new)
}

fn users(pods: &Store<MountingPod>, claim: &Key) -> Vec<Key> {
    let users = pods.by(&BY_CLAIM, &format_smolstr!("{claim}"));
    users.iter().map(|pod| pod.metadata.key()).collect()
}
