//! Decides what the driver does about claims, volumes and attachments. Pure.

use flyball_api::{
    Labels, PersistentVolume, PersistentVolumeClaim, Quantity, ResourceList, StorageClass, VolumeAttachment,
};
use serde_json::{Value, json};

use crate::scheduler::SELECTED_NODE;

/// The name of the driver and of the provisioner.
pub(super) const DRIVER: &str = "disk.flyball.dev";
/// The default StorageClass.
pub(super) const CLASS: &str = "standard";
/// Names the provisioner of a claim.
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// Names the provisioner of a volume.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

pub(super) fn class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": DRIVER, "reclaimPolicy": "Delete", "allowVolumeExpansion": true,
        "volumeBindingMode": "WaitForFirstConsumer",
    })
}

/// The CSIDriver object.
pub(super) fn driver() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
        "metadata": {"name": DRIVER}, "spec": {"attachRequired": true, "podInfoOnMount": false},
    })
}

/// The volume to provision for a claim, if it waits for this provisioner.
pub(super) fn volume_for(claim: &PersistentVolumeClaim, class: Option<&StorageClass>) -> Option<Value> {
    let (meta, spec, class) = (&claim.metadata, &claim.spec, class?);
    let is_ours = meta.annotations.get(PROVISIONER) == Some(DRIVER) && class.provisioner == DRIVER;
    let waits = class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer");
    let is_due = !waits || meta.annotations.contains_key(SELECTED_NODE);
    if !is_ours || !is_due || meta.is_deleting() || !spec.volume_name.is_empty() {
        return None;
    }
    let name = format!("pvc-{}", meta.uid);
    Some(json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: DRIVER}},
        "spec": {
            "accessModes": spec.access_modes,
            "capacity": {"storage": storage(&spec.resources.requests)?.to_string()},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta.namespace,
                "name": meta.name, "uid": meta.uid.to_string(),
            },
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "mountOptions": class.mount_options,
            "persistentVolumeReclaimPolicy": class.reclaim_policy.as_deref().unwrap_or("Delete"),
            "storageClassName": class.metadata.name,
            "volumeMode": spec.volume_mode.as_deref().unwrap_or("Filesystem"),
        },
    }))
}

/// Whether a volume of ours is to be deleted: it is released and its reclaim policy is `Delete`.
pub(super) fn is_unwanted(volume: &PersistentVolume) -> bool {
    is_ours(&volume.metadata.annotations)
        && volume.status.phase == "Released"
        && volume.spec.persistent_volume_reclaim_policy == "Delete"
        && !volume.metadata.is_deleting()
}

/// The size to which the volume of a claim is to be expanded, if it is.
pub(super) fn growth(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<Quantity> {
    let is_bound = claim.status.phase == "Bound" && is_ours(&volume.metadata.annotations);
    let (wanted, has) = (storage(&claim.spec.resources.requests)?, storage(&claim.status.capacity)?);
    (is_bound && wanted > has).then_some(wanted)
}

/// Whether an attachment waits for this driver.
pub(super) fn is_awaited(attachment: &VolumeAttachment) -> bool {
    attachment.spec.attacher == DRIVER && !attachment.status.attached && !attachment.metadata.is_deleting()
}

fn is_ours(annotations: &Labels) -> bool {
    annotations.get(PROVISIONED_BY) == Some(DRIVER)
}

fn storage(list: &ResourceList) -> Option<Quantity> {
    list.get("storage")
}
