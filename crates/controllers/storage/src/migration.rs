//! Plugins that once were in the tree and whose volumes CSI drivers have taken over. As of v1.36 that cannot be
//! turned off.

use flyball_api::{Labels, ObjectMeta, PersistentVolume};

use crate::names::{
    BETA_PROVISIONER, EXTERNAL_FINALIZER, IN_TREE_FINALIZER, MIGRATED_TO, PROVISIONED_BY, PROVISIONER,
};

/// The drivers that took over.
pub(crate) mod drivers {
    pub(crate) const AZURE_DISK: &str = "disk.csi.azure.com";
    pub(crate) const AZURE_FILE: &str = "file.csi.azure.com";
    pub(crate) const CINDER: &str = "cinder.csi.openstack.org";
    pub(crate) const EBS: &str = "ebs.csi.aws.com";
    pub(crate) const GCE_PD: &str = "pd.csi.storage.gke.io";
    pub(crate) const PORTWORX: &str = "pxd.portworx.com";
    pub(crate) const VSPHERE: &str = "csi.vsphere.vmware.com";
}

/// A plugin, the driver that took over, and the field that holds its volumes.
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

/// The driver that has taken over from a plugin.
pub(crate) fn driver_of(plugin: &str) -> Option<&'static str> {
    MIGRATED.iter().find(|migrated| migrated.plugin == plugin).map(|migrated| migrated.driver)
}

/// The plugin that a volume belonged to, and its driver, if it is of one that was taken over.
pub(crate) fn of_volume(volume: &PersistentVolume) -> Option<(&'static str, &'static str)> {
    if volume.spec.csi.is_some() {
        return None;
    }
    let spec = volume.spec.raw().to_value();
    let found =
        MIGRATED.iter().find(|migrated| spec.get(migrated.source).is_some_and(|source| !source.is_null()))?;
    Some((found.plugin, found.driver))
}

/// The annotations of a claim once they say which driver has taken over; nothing if they are right.
pub(crate) fn of_claim_annotations(annotations: &Labels) -> Option<Labels> {
    let provisioner = annotations.get(PROVISIONER).or(annotations.get(BETA_PROVISIONER))?;
    renamed(annotations, provisioner)
}

fn of_volume_annotations(annotations: &Labels) -> Option<Labels> {
    renamed(annotations, annotations.get(PROVISIONED_BY)?)
}

fn renamed(annotations: &Labels, provisioner: &str) -> Option<Labels> {
    let noted = annotations.get(MIGRATED_TO).unwrap_or_default();
    match driver_of(provisioner) {
        Some(driver) if noted != driver => Some(annotations.with(MIGRATED_TO, driver)),
        None if !noted.is_empty() => Some(annotations.without(MIGRATED_TO)),
        _ => None,
    }
}

/// The metadata of a volume once annotations and finalizers say who looks after it; nothing if they are right.
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

/// Only volumes that were made for a claim are kept until they are deleted for good: by the finalizer of the plugin in
/// the tree while the policy is to delete them, by the driver's own where one has taken over.
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
    // The server takes no new finalizer for what is being deleted.
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
    fn a_volume_says_who_looks_after_it() {
        const IN_TREE: &str = IN_TREE_FINALIZER;
        const EXTERNAL: &str = EXTERNAL_FINALIZER;
        const EBS: &str = "ebs.csi.aws.com";
        #[rustfmt::skip]
        let table = [
            // case                         provisioner                policy    migrated  finalizers  annotation after, finalizers after
            ("made by hand",                "",                        "Delete", "",       "x",        None),
            ("made by a driver",            "csi.example.com",         "Delete", "",       "x",        None),
            ("a driver that took over",     "kubernetes.io/aws-ebs",   "Delete", "",       IN_TREE,    Some((EBS, ""))),
            ("noted already",               "kubernetes.io/aws-ebs",   "Delete", EBS,      "",         None),
            ("a note without a driver",     "csi.example.com",         "Delete", EBS,      "",         Some(("", ""))),
            ("in the tree, to be deleted",  "kubernetes.io/host-path", "Delete", "",       "x",        Some(("", "x kubernetes.io/pv-controller"))),
            ("in the tree, to be kept",     "kubernetes.io/host-path", "Retain", "",       IN_TREE,    Some(("", ""))),
            ("a driver's, back in the tree","kubernetes.io/host-path", "Delete", "",       EXTERNAL,   Some(("", IN_TREE))),
            ("in the tree, as it should be","kubernetes.io/host-path", "Delete", "",       IN_TREE,    None),
        ];
        for (case, provisioner, policy, migrated, finalizers, want) in table {
            let after = of_volume_metadata(&volume(provisioner, policy, migrated, finalizers)).map(|meta| {
                let note = meta.annotations.get(MIGRATED_TO).unwrap_or_default().to_owned();
                (note, meta.finalizers.join(" "))
            });
            assert_eq!(after, want.map(|(note, kept)| (note.to_owned(), kept.to_owned())), "{case}");
        }
    }

    #[test]
    fn what_is_being_deleted_gets_no_finalizer() {
        let mut going = volume("kubernetes.io/host-path", "Delete", "", "x");
        going.metadata.deletion_timestamp = Some(flyball_api::Timestamp::UNIX_EPOCH);
        assert_eq!(of_volume_metadata(&going), None);
    }

    #[test]
    fn a_claim_says_which_driver_took_over() {
        let note = |provisioner: &str| {
            let annotations = Labels::EMPTY.with(BETA_PROVISIONER, provisioner);
            of_claim_annotations(&annotations).and_then(|noted| noted.get(MIGRATED_TO).map(str::to_owned))
        };
        assert_eq!(note("kubernetes.io/gce-pd").as_deref(), Some("pd.csi.storage.gke.io"));
        assert_eq!(note("csi.example.com"), None);
        assert_eq!(
            of_claim_annotations(&Labels::EMPTY.with(MIGRATED_TO, "x")),
            None,
            "nobody makes its volume"
        );
    }
}
