//! The writes on volumes and claims. Each answer is remembered, so that the next decision sees it.

use std::sync::Arc;

use flyball_api::persistent_volume::PersistentVolumeStatus;
use flyball_api::persistent_volume_claim::PersistentVolumeClaimStatus;
use flyball_api::{Key, Object, PersistentVolume, PersistentVolumeClaim, manifest_with_status};
use flyball_runtime::SyncError;
use flyball_runtime::events::{EventType, ObjectRef};

use super::claim::Tell;
use super::sync::Binder;

impl Binder {
    /// Tells users about a volume or claim.
    pub(super) fn tell(&self, about: &ObjectRef, tell: Tell) {
        let kind = if tell.is_warning { EventType::Warning } else { EventType::Normal };
        self.events.record(about, kind, tell.reason, tell.message, vec![]);
    }

    /// Replaces a volume, on behalf of `owner`.
    pub(super) async fn put_volume(
        &self,
        owner: &Key,
        volume: &PersistentVolume,
        why: &str,
    ) -> Result<Arc<PersistentVolume>, SyncError> {
        let written = self.cx.writer(owner).update_whole(volume, why).await;
        let written = written.map_err(SyncError::api(format!("writing volume {}", volume.metadata.name)))?;
        Ok(self.volumes.note(written))
    }

    /// Gives a volume a phase, if it has another.
    pub(super) async fn put_phase(
        &self,
        owner: &Key,
        volume: Arc<PersistentVolume>,
        phase: &'static str,
        message: &str,
    ) -> Result<Arc<PersistentVolume>, SyncError> {
        if volume.status.phase == phase {
            return Ok(volume);
        }
        let (phase, message) = (phase.into(), message.into());
        let status = PersistentVolumeStatus { phase, message, ..volume.status.clone() };
        let (key, body) = (volume.key(), manifest_with_status(&*volume, &status));
        let why = format!("it is {}", status.phase);
        let written = self.cx.writer(owner).update(&key, Some("status"), &body, why).await;
        let written = written.map_err(SyncError::api(format!("writing the phase of volume {key}")))?;
        Ok(self.volumes.note(written))
    }

    /// Gives a volume a phase and tells why, if it has another.
    pub(super) async fn put_phase_telling(
        &self,
        owner: &Key,
        volume: Arc<PersistentVolume>,
        phase: &'static str,
        tell: Tell,
    ) -> Result<(), SyncError> {
        if volume.status.phase == phase {
            return Ok(());
        }
        let volume = self.put_phase(owner, volume, phase, &tell.message).await?;
        self.tell(&ObjectRef::of(&*volume), tell);
        Ok(())
    }

    pub(super) async fn put_claim(
        &self,
        claim: &PersistentVolumeClaim,
        why: &str,
    ) -> Result<Arc<PersistentVolumeClaim>, SyncError> {
        let key = claim.key();
        let written = self.cx.writer(&key).update_whole(claim, why).await;
        let written = written.map_err(SyncError::api(format!("writing claim {key}")))?;
        Ok(self.claims.note(written))
    }

    /// Gives a claim a status, if it has another; says whether it had.
    pub(super) async fn put_claim_status(
        &self,
        claim: &PersistentVolumeClaim,
        status: &PersistentVolumeClaimStatus,
    ) -> Result<bool, SyncError> {
        if claim.status == *status {
            return Ok(false);
        }
        let (key, body) = (claim.key(), manifest_with_status(claim, status));
        let why = format!("it is {}", status.phase);
        let written = self.cx.writer(&key).update(&key, Some("status"), &body, why).await;
        let written = written.map_err(SyncError::api(format!("writing the status of claim {key}")))?;
        self.claims.note(written);
        Ok(true)
    }
}
