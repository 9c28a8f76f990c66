//! Has a volume made for a claim: an external provisioner is asked by annotation; a directory we make ourselves.

use std::sync::Arc;

use flyball_api::{Key, Object, PersistentVolume, PersistentVolumeClaim, Resource, StorageClass};
use flyball_runtime::events::ObjectRef;
use flyball_runtime::{Chain, SyncError};
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::claim::Tell;
use super::plugins::{HOST_PATH, Maker};
use super::sync::Binder;
use super::{edit, host_path, matching, metrics};
use crate::class;
use crate::names::{BOUND_BY_CONTROLLER, IN_TREE_FINALIZER, PROVISIONED_BY, SELECTED_NODE, STORAGE};

const FAILED: &str = "ProvisioningFailed";

impl Binder {
    /// Has a volume made for a claim.
    pub(super) async fn provision(
        &self,
        claim: Arc<PersistentVolumeClaim>,
        class: Option<&StorageClass>,
        maker: Maker,
    ) -> Result<(), SyncError> {
        let key = claim.key();
        match (maker, class) {
            (Maker::External(name), _) => {
                self.operations.begin(&key, &name, "provision");
                self.ask(claim, &name).await
            }
            (Maker::HostPath, Some(class)) => {
                self.operations.begin(&key, HOST_PATH, "provision");
                if self.operations.is_resting(&key) {
                    return Ok(());
                }
                self.make(claim, class).await
            }
            (Maker::HostPath, None) => Ok(()),
        }
    }

    async fn ask(&self, claim: Arc<PersistentVolumeClaim>, provisioner: &SmolStr) -> Result<(), SyncError> {
        let claim = self.put_asked(claim, provisioner).await?;
        let message = format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the \
             system administrator. If volume creation is delayed, please verify that the provisioner is running and \
             correctly registered."
        );
        self.tell(&ObjectRef::of(&*claim), Tell::normal("ExternalProvisioning", message));
        Ok(())
    }

    /// Notes on a claim who is to make its volume.
    async fn put_asked(
        &self,
        claim: Arc<PersistentVolumeClaim>,
        provisioner: &str,
    ) -> Result<Arc<PersistentVolumeClaim>, SyncError> {
        let Some(asked) = edit::asked(&claim, provisioner) else { return Ok(claim) };
        let written = self.put_claim(&asked, "a provisioner is to make a volume for it").await;
        if let Err(error) = &written
            && !error.is_expected()
        {
            self.operations.failed(&claim.key());
            let message = format!("Error saving claim: {}", Chain(error));
            self.tell(&ObjectRef::of(&*claim), Tell::warning(FAILED, message));
        }
        written
    }

    /// Makes a directory and a volume of it.
    async fn make(&self, claim: Arc<PersistentVolumeClaim>, class: &StorageClass) -> Result<(), SyncError> {
        let key = claim.key();
        let failed = |claim: &PersistentVolumeClaim, why: String| {
            self.operations.failed(&key);
            self.operations.rest(&key);
            self.tell(&ObjectRef::of(claim), Tell::warning(FAILED, why));
        };
        if claim.spec.data_source.is_some() {
            let only = "Only CSI plugin can provision a claim with a datasource";
            failed(&claim, format!("plugin {HOST_PATH:?} is not a CSI plugin. {only}"));
            return Ok(());
        }
        let claim = self.put_asked(claim, HOST_PATH).await?;
        let name = Key::cluster(format!("pvc-{}", claim.metadata.uid));
        match self.cx.client.get::<PersistentVolume>(&name).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(SyncError::api(format!("reading volume {name}"))(error)),
        }
        if let Some(why) = self.obstacle(&claim, class) {
            failed(&claim, why);
            return Ok(());
        }
        let make = async {
            match matching::mode(claim.spec.volume_mode.as_ref()) {
                "Block" => Err(format!("{HOST_PATH} does not support block volume provisioning")),
                _ => host_path::make(host_path::path_for(&claim)).await,
            }
        };
        let made = metrics::timed(&self.cx.metrics, HOST_PATH, "volume_provision", make).await;
        if let Err(why) = made {
            let why =
                format!("Failed to provision volume with StorageClass {:?}: {why}", class.metadata.name);
            failed(&claim, why);
            return self.deselect(&claim).await;
        }
        let (volume, why) = (manifest(&name, &claim, class), "a claim needs it");
        let created = self.cx.writer(&key).create::<PersistentVolume>("", &volume, why).await;
        match created {
            Err(error) if !error.is_already_exists() => {
                self.operations.failed(&key);
                Err(SyncError::api(format!("creating volume {name}"))(error))
            }
            _ => {
                let message = format!("Successfully provisioned volume {name} using {HOST_PATH}");
                self.tell(&ObjectRef::of(&*claim), Tell::normal("ProvisioningSucceeded", message));
                Ok(())
            }
        }
    }

    /// Why no directory can be made for a claim, if none can.
    fn obstacle(&self, claim: &PersistentVolumeClaim, class: &StorageClass) -> Option<String> {
        if !class.mount_options.is_empty() {
            let (name, options) = (&class.metadata.name, class.mount_options.join(" "));
            let refused = "Mount options are not supported by the provisioner";
            return Some(format!("{refused} but StorageClass {name:?} has mount options [{options}]"));
        }
        let config = &self.cx.config.persistent_volume_binder_controller.volume_configuration;
        if !config.enable_host_path_provisioning {
            let why = format!("provisioning in volume plugin {HOST_PATH:?} is disabled");
            return Some(format!("Failed to create provisioner: {why}"));
        }
        let node = claim.metadata.annotations.get(SELECTED_NODE)?;
        let is_missing = self.nodes.store().get(&Key::cluster(node)).is_none();
        is_missing.then(|| format!("Failed to get target node: node {node:?} not found"))
    }

    /// Lets the scheduler choose another node, where it chose one.
    async fn deselect(&self, claim: &PersistentVolumeClaim) -> Result<(), SyncError> {
        if !claim.metadata.annotations.contains_key(SELECTED_NODE) {
            return Ok(());
        }
        let mut open = claim.clone();
        open.metadata.annotations = open.metadata.annotations.without(SELECTED_NODE);
        self.put_claim(&open, "no volume can be made for its node").await.map(drop)
    }
}

/// The volume of a claim that is a directory.
fn manifest(name: &Key, claim: &PersistentVolumeClaim, class: &StorageClass) -> Value {
    let kind = PersistentVolume::TYPE;
    let policy = class.reclaim_policy.as_deref().unwrap_or("Delete");
    let finalizers: &[&str] = if policy == "Delete" { &[IN_TREE_FINALIZER] } else { &[] };
    let modes = match claim.spec.access_modes.is_empty() {
        true => json!(["ReadWriteOnce"]),
        false => json!(claim.spec.access_modes),
    };
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "metadata": {
            "name": name.name,
            "annotations": {
                "kubernetes.io/createdby": "hostpath-dynamic-provisioner",
                BOUND_BY_CONTROLLER: "yes",
                PROVISIONED_BY: HOST_PATH,
            },
            "finalizers": finalizers,
        },
        "spec": {
            "persistentVolumeReclaimPolicy": policy,
            "accessModes": modes,
            "capacity": {STORAGE: matching::size(&claim.spec.resources.requests)},
            "hostPath": {"path": host_path::path_for(claim)},
            "claimRef": edit::reference(claim),
            "storageClassName": class::of_claim(claim),
        },
    })
}
