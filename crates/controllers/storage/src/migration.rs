//! In-tree plugins that CSI drivers have replaced. As of v1.36 this migration cannot be turned off. Pure.

use flyball_api::{Labels, ObjectMeta, PersistentVolume};

use crate::names::{
    BETA_PROVISIONER, EXTERNAL_FINALIZER, IN_TREE_FINALIZER, MIGRATED_TO, PROVISIONED_BY, PROVISIONER,
};

pub(crate) mod drivers {
    pub(crate) const AZURE_DISK: &str = "disk.csi.azure.com";
    pub(crate) const AZURE_FILE: &str = "file.csi.azure.com";
    pub(crate) const CINDER: &str = "cinder.csi.openstack.org";
    pub(crate) const EBS: &str = "ebs.csi.aws.com";
    pub(crate) const GCE_PD: &str = "pd.csi.storage.gke.io";
    pub(crate) const PORTWORX: &str = "pxd.portworx.com";
    pub(crate) const VSPHERE: &str = "csi.vsphere.vmware.com";
}

/// A plugin, the driver that has replaced it, and the field of its volumes.
struct Migrated {
    plugin: &'static str,
    driver: &'static str,
    source: &'static str,
}

#[rustfmt::skip]
const MIGRATED: [Migrated; 7] = [
    Migrated { plugin: "kubernetes.io/aws-ebs",         driver: drivers::EBS,        source: "awsElasticBlockStore" },
    Migrated { plugin: "kubernetes.io/azure-disk",      driver: drivers::AZURE_DISK, source: "azureDisk" },
    Migrated { plugin: "kubernetes.io/azure-file",      driver: drivers::AZURE_FILE, source: "azureFile" },
    Migrated { plugin: "kubernetes.io/cinder",          driver: drivers::CINDER,     source: "cinder" },
    Migrated { plugin: "kubernetes.io/gce-pd",          driver: drivers::GCE_PD,     source: "gcePersistentDisk" },
    Migrated { plugin: "kubernetes.io/portworx-volume", driver: drivers::PORTWORX,   source: "portworxVolume" },
    Migrated { plugin: "kubernetes.io/vsphere-volume",  driver: drivers::VSPHERE,    source: "vsphereVolume" },
];

/// The driver that has replaced a plugin.
pub(crate) fn driver_of(plugin: &str) -> Option<&'static str> {
    MIGRATED.iter().find(|migrated| migrated.plugin == plugin).map(|migrated| migrated.driver)
}

/// Whether this is the field of a volume of a plugin that a driver has replaced.
pub(crate) fn is_source(field: &str) -> bool {
    MIGRATED.iter().any(|migrated| migrated.source == field)
}

/// The in-tree plugin of a volume and the driver that has replaced it.
pub(crate) fn of_volume(volume: &PersistentVolume) -> Option<(&'static str, &'static str)> {
    if volume.spec.csi.is_some() {
        return None;
    }
    let spec = volume.spec.raw().to_value();
    let found =
        MIGRATED.iter().find(|migrated| spec.get(migrated.source).is_some_and(|source| !source.is_null()))?;
    Some((found.plugin, found.driver))
}

/// The annotations of a claim with the driver that has replaced its provisioner; `None` if they are right.
pub(crate) fn of_claim_annotations(annotations: &Labels) -> Option<Labels> {
    let provisioner = annotations.get(PROVISIONER).or(annotations.get(BETA_PROVISIONER))?;
    migrated(annotations, provisioner)
}

fn of_volume_annotations(annotations: &Labels) -> Option<Labels> {
    migrated(annotations, annotations.get(PROVISIONED_BY)?)
}

fn migrated(annotations: &Labels, provisioner: &str) -> Option<Labels> {
    let current = annotations.get(MIGRATED_TO).unwrap_or_default();
    match driver_of(provisioner) {
        Some(driver) if current != driver => Some(annotations.with(MIGRATED_TO, driver)),
        None if !current.is_empty() => Some(annotations.without(MIGRATED_TO)),
        _ => None,
    }
}

/// The metadata of a volume with the annotations and finalizers of its provisioner; `None` if they are right.
pub(crate) fn of_volume_metadata(volume: &PersistentVolume) -> Option<ObjectMeta> {
    let meta = &volume.metadata;
    let (annotations, finalizers) = (of_volume_annotations(&meta.annotations), finalizers(volume));
    if annotations.is_none() && finalizers.is_none() {
        return None;
    }
    let mut meta = meta.clone();
    meta.annotations = annotations.unwrap_or(meta.annotations);
    meta.finalizers = finalizers.unwrap_or(meta.finalizers);
    Some(meta)
}

/// Only provisioned volumes have a finalizer until their storage is deleted: that of the in-tree plugin while the policy is
/// Delete, the driver's own where a driver has replaced the plugin.
fn finalizers(volume: &PersistentVolume) -> Option<Box<[smol_str::SmolStr]>> {
    let provisioner = volume.metadata.annotations.get(PROVISIONED_BY)?;
    let is_migrated = driver_of(provisioner).is_some();
    if !is_migrated && !provisioner.starts_with("kubernetes.io/") {
        return None;
    }
    let (add, drop): (bool, &[&str]) = match volume.spec.persistent_volume_reclaim_policy.as_str() {
        _ if is_migrated => (false, &[IN_TREE_FINALIZER]),
        "Delete" => (true, &[EXTERNAL_FINALIZER]),
        "Retain" | "Recycle" => (false, &[IN_TREE_FINALIZER, EXTERNAL_FINALIZER]),
        _ => (false, &[EXTERNAL_FINALIZER]),
    };
    let held = &volume.metadata.finalizers;
    // The server refuses new finalizers on an object that is being deleted.
    let add = add && !volume.metadata.is_deleting() && !volume.metadata.has_finalizer(IN_TREE_FINALIZER);
    let added = add.then(|| IN_TREE_FINALIZER.into());
    let wanted: Box<[_]> =
        held.iter().filter(|held| !drop.contains(&held.as_str())).cloned().chain(added).collect();
    (wanted != *held).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn volume(provisioner: &str, policy: &str, migrated_to: &str, finalizers: &str) -> PersistentVolume {
        let mut annotations = json!({});
        for (key, value) in [(PROVISIONED_BY, provisioner), (MIGRATED_TO, migrated_to)] {
            if !value.is_empty() {
                annotations[key] = json!(value);
            }
        }
        let finalizers: Vec<_> = finalizers.split_whitespace().collect();
        serde_json::from_value(json!({
            "metadata": {"name": "v", "annotations": annotations, "finalizers": finalizers},
            "spec": {"persistentVolumeReclaimPolicy": policy},
        }))
        .unwrap()
    }

    #[test]
    fn a_volume_has_the_annotations_and_finalizers_of_its_provisioner() {
        const IN_TREE: &str = IN_TREE_FINALIZER;
        const EXTERNAL: &str = EXTERNAL_FINALIZER;
        const EBS: &str = "ebs.csi.aws.com";
        #[rustfmt::skip]
        let table = [
            // case                         provisioner                policy    migrated  finalizers  annotation after, finalizers after
            ("created by hand",             "",                        "Delete", "",       "x",        None),
            ("provisioned by a driver",     "csi.example.com",         "Delete", "",       "x",        None),
            ("its plugin was replaced",     "kubernetes.io/aws-ebs",   "Delete", "",       IN_TREE,    Some((EBS, ""))),
            ("annotated",                   "kubernetes.io/aws-ebs",   "Delete", EBS,      "",         None),
            ("a stale annotation",          "csi.example.com",         "Delete", EBS,      "",         Some(("", ""))),
            ("in the tree, to be deleted",  "kubernetes.io/host-path", "Delete", "",       "x",        Some(("", "x kubernetes.io/pv-controller"))),
            ("in the tree, to be kept",     "kubernetes.io/host-path", "Retain", "",       IN_TREE,    Some(("", ""))),
            ("a driver's, back in the tree","kubernetes.io/host-path", "Delete", "",       EXTERNAL,   Some(("", IN_TREE))),
            ("in the tree, as it should be","kubernetes.io/host-path", "Delete", "",       IN_TREE,    None),
        ];
        for (case, provisioner, policy, migrated, finalizers, want) in table {
            let after = of_volume_metadata(&volume(provisioner, policy, migrated, finalizers)).map(|meta| {
                let annotation = meta.annotations.get(MIGRATED_TO).unwrap_or_default().to_owned();
                (annotation, meta.finalizers.join(" "))
            });
            assert_eq!(
                after,
                want.map(|(annotation, kept)| (annotation.to_owned(), kept.to_owned())),
                "{case}"
            );
        }
    }

    #[test]
    fn a_volume_that_is_being_deleted_gets_no_finalizer() {
        let mut going = volume("kubernetes.io/host-path", "Delete", "", "x");
        going.metadata.deletion_timestamp = Some(flyball_api::Timestamp::UNIX_EPOCH);
        assert_eq!(of_volume_metadata(&going), None);
    }

    #[test]
    fn a_claim_is_annotated_with_the_driver_that_replaced_its_provisioner() {
        let annotation = |provisioner: &str| {
            let annotations = Labels::EMPTY.with(BETA_PROVISIONER, provisioner);
            of_claim_annotations(&annotations).and_then(|new| new.get(MIGRATED_TO).map(str::to_owned))
        };
        assert_eq!(annotation("kubernetes.io/gce-pd").as_deref(), Some("pd.csi.storage.gke.io"));
        assert_eq!(annotation("csi.example.com"), None);
        assert_eq!(
            of_claim_annotations(&Labels::EMPTY.with(MIGRATED_TO, "x")),
            None,
            "it has no provisioner"
        );
    }
}
