//! Finds the disk behind a volume of a pod, through claims and volumes.

use std::sync::Arc;

use flyball_api::pod::{Volume, VolumeSource};
use flyball_api::{CSIDriver, Key, ObjectMeta, PersistentVolume, PersistentVolumeClaim};
use flyball_cache::Informer;

use super::Disk;
use crate::migration;
use crate::names::BOUND;
use crate::usage::{claim_name, is_made_for};

pub(crate) struct Lookup {
    pub(crate) claims: Arc<Informer<PersistentVolumeClaim>>,
    pub(crate) volumes: Arc<Informer<PersistentVolume>>,
    pub(crate) drivers: Arc<Informer<CSIDriver>>,
}

impl Lookup {
    /// The disk behind a volume of `pod`.
    pub(crate) fn disk_of(&self, pod: &ObjectMeta, volume: &Volume) -> Option<Disk> {
        match claim_name(pod, volume) {
            Some(name) => {
                let is_read_only = matches!(volume.source, VolumeSource::Claim { read_only: true, .. });
                let claimed = self.claimed_volume(pod, volume, &name)?;
                Disk::of_volume(&claimed).map(|disk| disk.read_only(is_read_only))
            }
            None => Disk::of_inline(&pod.namespace, volume),
        }
    }

    /// Whether a volume of `pod` is that of a claim which is not bound, or not the pod's.
    pub(crate) fn is_pending(&self, pod: &ObjectMeta, volume: &Volume) -> bool {
        claim_name(pod, volume).is_some_and(|name| self.claimed_volume(pod, volume, &name).is_none())
    }

    /// Whether a volume of `pod` is one of an in-tree plugin for which the CSI driver that has replaced it has no name, such as a
    /// `Dedicated` disk of Azure.
    pub(crate) fn is_untranslatable(&self, pod: &ObjectMeta, volume: &Volume) -> bool {
        match &volume.source {
            VolumeSource::Inline(field, _) => {
                migration::is_source(field) && Disk::of_inline(&pod.namespace, volume).is_none()
            }
            _ => {
                claim_name(pod, volume).and_then(|name| self.claimed_volume(pod, volume, &name)).is_some_and(
                    |found| migration::of_volume(&found).is_some() && Disk::of_volume(&found).is_none(),
                )
            }
        }
    }

    fn claimed_volume(
        &self,
        pod: &ObjectMeta,
        volume: &Volume,
        claim: &str,
    ) -> Option<Arc<PersistentVolume>> {
        let claim = self.claims.store().get(&Key::new(pod.namespace.as_str(), claim))?;
        let is_own = !matches!(volume.source, VolumeSource::Ephemeral(_)) || is_made_for(&claim, pod);
        self.bound_volume(&claim).filter(|_| is_own)
    }

    /// The volume that a claim is bound to, if the volume refers to the claim.
    pub(crate) fn bound_volume(&self, claim: &PersistentVolumeClaim) -> Option<Arc<PersistentVolume>> {
        if claim.status.phase != BOUND || claim.spec.volume_name.is_empty() {
            return None;
        }
        let volume = self.volumes.store().get(&Key::cluster(claim.spec.volume_name.as_str()))?;
        let is_mutual = volume.spec.claim_ref.as_ref().is_some_and(|owner| owner.uid == claim.metadata.uid);
        is_mutual.then_some(volume)
    }

    /// The CSIDriver of a disk.
    pub(crate) fn driver_of(&self, disk: &Disk) -> Option<Arc<CSIDriver>> {
        self.drivers.store().get(&Key::cluster(disk.driver()?.driver.as_str()))
    }
}
