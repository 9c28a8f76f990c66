//! The shell: look up, plan, tell, patch.

use std::sync::Arc;

use flyball_api::persistent_volume_claim::PersistentVolumeClaimStatus;
use flyball_api::{Key, Object, PersistentVolume, PersistentVolumeClaim, Quantity};
use flyball_cache::Informer;
use flyball_client::Patch;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Chain, Context, Next, Reconcile, SyncError};
use serde_json::{Value, json};
use smol_str::format_smolstr;

use super::plan::{Action, Step, held, is_bound, plan};
use super::progress;
use crate::names::{PRE_RESIZE, STORAGE};

/// On a claim: who makes it grow.
const RESIZER: &str = "volume.kubernetes.io/storage-resizer";
const EXTERNAL: &str = "ExternalExpanding";

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) claims: Arc<Informer<PersistentVolumeClaim>>,
    pub(super) volumes: Arc<Informer<PersistentVolume>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(claim) = self.claims.store().get(key) else { return Ok(Next::Settled) };
        let name = Key::cluster(claim.spec.volume_name.as_str());
        let volume = self.volumes.store().get(&name).filter(|volume| is_bound(&claim, volume));
        let Some(volume) = volume else {
            let why = format!("persistent Volume is not bound to PVC being updated : {key}");
            return Err(SyncError::other(format!("reading volume {name}"), why).expected());
        };
        let about = ObjectRef::of(&*claim);
        match plan(&claim, &volume) {
            Action::Nothing => {}
            Action::Leave => {
                let message = "waiting for an external controller to expand this PVC";
                self.events.normal(&about, EXTERNAL, message);
            }
            Action::Hand { plugin, driver } => {
                let message = format!(
                    "CSI migration enabled for {plugin}; waiting for external resizer to expand the pvc"
                );
                self.events.normal(&about, EXTERNAL, message);
                self.hand(&claim, driver).await?;
            }
            Action::Flex { driver, step } => {
                let done = self.flex(&claim, &volume, &driver, step).await;
                if let Err(error) = &done
                    && !error.is_expected()
                {
                    self.events.warning(&about, "VolumeResizeFailed", Chain(error).to_string());
                }
                done?;
            }
        }
        Ok(Next::Settled)
    }
}

impl Controller {
    /// Notes on a claim which driver makes it grow.
    async fn hand(&self, claim: &PersistentVolumeClaim, driver: &str) -> Result<(), SyncError> {
        if claim.metadata.annotations.get(RESIZER) == Some(driver) {
            return Ok(());
        }
        let patch = json!({"metadata": {"annotations": {RESIZER: driver}}});
        let handed = self.patch_claim(claim, patch, "a driver makes it grow").await;
        if let Err(error) = &handed {
            let key = claim.key();
            let why = format!("error setting resizer annotation to pvc {key}, with error {}", Chain(error));
            self.events.warning(&ObjectRef::of(claim), EXTERNAL, why);
        }
        handed.map(drop)
    }

    /// Takes a FlexVolume through the next steps of growing.
    async fn flex(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
        driver: &str,
        step: Step,
    ) -> Result<(), SyncError> {
        let key = claim.key();
        match step {
            Step::Wait => Ok(()),
            Step::Clear => {
                let patch = json!({"metadata": {"annotations": {PRE_RESIZE: null}}});
                self.patch_volume(&key, volume, patch, "its file system has grown").await
            }
            Step::Retry => self.leave_to_node(claim, volume).await,
            Step::Grow(size) => {
                let mut status = claim.status.clone();
                progress::begun(&mut status, size, self.cx.clock.now());
                let mut patch = changed(&claim.status, &status);
                patch["metadata"] = json!({"annotations": {RESIZER: driver}});
                let claim = self.patch_claim(claim, patch, "it grows").await?;
                let patch = json!({"spec": {"capacity": {STORAGE: size}}});
                self.patch_volume(&key, volume, patch, "it grows").await?;
                if volume.spec.volume_mode.as_deref() == Some("Block") {
                    return self.finish(&claim, size).await;
                }
                self.leave_to_node(&claim, volume).await
            }
        }
    }

    /// Says that the node must make the file system grow, and how large it still is.
    async fn leave_to_node(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
    ) -> Result<(), SyncError> {
        let mut status = claim.status.clone();
        progress::left_to_node(&mut status, self.cx.clock.now());
        let why = "its file system is yet to grow";
        let claim = self.patch_claim(claim, changed(&claim.status, &status), why).await?;
        if volume.metadata.annotations.contains_key(PRE_RESIZE) {
            return Ok(());
        }
        let before = format_smolstr!("{}", held(&claim));
        let patch = json!({"metadata": {"annotations": {PRE_RESIZE: before}}});
        self.patch_volume(&claim.key(), volume, patch, why).await
    }

    async fn finish(&self, claim: &PersistentVolumeClaim, size: Quantity) -> Result<(), SyncError> {
        let mut status = claim.status.clone();
        progress::finished(&mut status, size);
        let claim = self.patch_claim(claim, changed(&claim.status, &status), "it has grown").await?;
        let message = format!("ExpandVolume succeeded for volume {}", claim.key());
        self.events.normal(&ObjectRef::of(&claim), "VolumeResizeSuccessful", message);
        Ok(())
    }

    /// Patches metadata and status of the very version of a claim that was looked at.
    async fn patch_claim(
        &self,
        claim: &PersistentVolumeClaim,
        mut patch: Value,
        why: &str,
    ) -> Result<PersistentVolumeClaim, SyncError> {
        let key = claim.key();
        patch["metadata"]["resourceVersion"] = json!(format_smolstr!("{}", claim.metadata.resource_version));
        let patched = self.cx.writer(&key).patch(&key, Some("status"), Patch::Merge(patch), why).await;
        patched.map_err(SyncError::api(format!("patching the status of claim {key}")))
    }

    async fn patch_volume(
        &self,
        claim: &Key,
        volume: &PersistentVolume,
        patch: Value,
        why: &str,
    ) -> Result<(), SyncError> {
        let key = volume.key();
        let writer = self.cx.writer(claim);
        let patched = writer.patch::<PersistentVolume>(&key, None, Patch::Merge(patch), why).await;
        patched.map(drop).map_err(SyncError::api(format!("patching volume {key}")))
    }
}

/// The merge patch from one status to another.
fn changed(before: &PersistentVolumeClaimStatus, after: &PersistentVolumeClaimStatus) -> Value {
    let (before, mut after) = (json!(before), json!(after));
    if let (Some(before), Some(after)) = (before.as_object(), after.as_object_mut()) {
        for gone in before.keys() {
            after.entry(gone.clone()).or_insert(Value::Null);
        }
        after.retain(|field, value| before.get(field) != Some(value));
    }
    json!({"status": after})
}
