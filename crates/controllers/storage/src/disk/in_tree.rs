//! Disks of in-tree plugins. CSI drivers have replaced most of these plugins, so such a volume is read as a volume of its
//! driver; nodes attach iSCSI and Fibre Channel disks by themselves. Pure.

use std::collections::BTreeMap;

use flyball_api::PersistentVolume;
use flyball_api::topology::{BETA_ZONE, ZONE};
use serde::Deserialize;
use serde_json::{Value, json};
use smol_str::{SmolStr, format_smolstr};

use super::flex::{FlexSource, FlexVolume};
use super::{DriverVolume, is_exclusive};
use crate::migration::drivers;

/// An unknown part of the handle of a Google disk.
const UNSPECIFIED: &str = "UNSPECIFIED";
/// The separator between the zones of a regional disk.
const ZONE_SEPARATOR: &str = "__";
const RESOURCE_GROUP: &str = "kubernetes.io/azure-file-resource-group";

/// The in-tree sources of a volume of a pod or of a PersistentVolume. At most one is set.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Sources {
    aws_elastic_block_store: Option<Partitioned>,
    gce_persistent_disk: Option<Partitioned>,
    cinder: Option<Partitioned>,
    portworx_volume: Option<Partitioned>,
    azure_disk: Option<AzureDisk>,
    azure_file: Option<AzureFile>,
    vsphere_volume: Option<VsphereVolume>,
    iscsi: Option<Iscsi>,
    fc: Option<FibreChannel>,
    flex_volume: Option<FlexSource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Partitioned {
    #[serde(rename = "volumeID", alias = "pdName")]
    id: String,
    fs_type: String,
    partition: i32,
    read_only: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AzureDisk {
    #[serde(rename = "diskURI")]
    uri: String,
    kind: Option<String>,
    caching_mode: Option<String>,
    fs_type: Option<String>,
    read_only: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AzureFile {
    secret_name: String,
    secret_namespace: Option<String>,
    share_name: String,
    read_only: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VsphereVolume {
    volume_path: String,
    fs_type: String,
    storage_policy_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Iscsi {
    target_portal: String,
    iqn: String,
    lun: i32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FibreChannel {
    #[serde(rename = "targetWWNs")]
    names: Option<Vec<String>>,
    lun: Option<i32>,
    #[serde(rename = "wwids")]
    ids: Option<Vec<String>>,
}

/// The object that has the source.
pub(super) enum Origin<'a> {
    Volume(&'a PersistentVolume),
    Pod {
        namespace: &'a str,
        /// The volume's name in the pod.
        volume: &'a str,
    },
}

/// A disk of an in-tree plugin as a volume of the driver that has replaced it.
#[derive(Debug, Default)]
pub(super) struct Translated {
    pub(super) volume: DriverVolume,
    /// The name for users of an inline volume of a pod.
    pub(super) title: SmolStr,
    fs_type: String,
    read_only: bool,
    attributes: BTreeMap<&'static str, String>,
    secret: Option<(String, String)>,
    /// The access mode of an inline volume of a pod.
    mode: &'static str,
    /// Whether it can be on several nodes only for reading, whatever its PersistentVolume says.
    shares_for_reading_only: bool,
}

impl Sources {
    /// The sources of a volume; `None` if they cannot be parsed.
    pub(super) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The disk as a volume of its driver, if a driver has replaced its plugin.
    pub(super) fn translate(&self, origin: &Origin<'_>) -> Option<Translated> {
        let Self { aws_elastic_block_store, gce_persistent_disk, cinder, portworx_volume, .. } = self;
        let once = "ReadWriteOnce";
        let by_access = |disk: &Partitioned| if disk.read_only { "ReadOnlyMany" } else { once };
        let translated = if let Some(disk) = aws_elastic_block_store {
            let attributes = [("partition", disk.partition.to_string())].into();
            Translated { attributes, ..disk.as_volume(drivers::EBS, ebs_handle(&disk.id)?, once) }
        } else if let Some(disk) = gce_persistent_disk {
            let partition = if disk.partition == 0 { String::new() } else { disk.partition.to_string() };
            let plain = disk.as_volume(drivers::GCE_PD, gce_handle(&disk.id, origin)?, by_access(disk));
            let title = format_smolstr!("{}-{}", plain.volume.driver, disk.id);
            let attributes = [("partition", partition)].into();
            return Some(Translated { attributes, title, shares_for_reading_only: true, ..plain });
        } else if let Some(disk) = cinder {
            disk.as_volume(drivers::CINDER, &disk.id, once)
        } else if let Some(disk) = portworx_volume {
            // The driver gets no `readOnly`; the access mode has that.
            Translated { read_only: false, ..disk.as_volume(drivers::PORTWORX, &disk.id, by_access(disk)) }
        } else if let Some(disk) = &self.azure_disk {
            return disk.translate();
        } else if let Some(share) = &self.azure_file {
            return share.translate(origin);
        } else {
            self.vsphere_volume.as_ref()?.translate()
        };
        let title = format_smolstr!("{}-{}", translated.volume.driver, translated.volume.handle);
        Some(Translated { title, ..translated })
    }

    /// The volume as one of a FlexVolume driver, if it is one. `name` is that of the PersistentVolume or of the volume in its pod.
    pub(super) fn flex(self, name: SmolStr) -> Option<FlexVolume> {
        FlexVolume::new(self.flex_volume?, name)
    }

    /// The name in the status of nodes of a disk that nodes attach by themselves.
    pub(super) fn node_disk(&self) -> Option<SmolStr> {
        if let Some(Iscsi { target_portal, iqn, lun }) = &self.iscsi {
            return Some(format_smolstr!("kubernetes.io/iscsi/{target_portal}:{iqn}:{lun}"));
        }
        let FibreChannel { names, lun, ids } = self.fc.as_ref()?;
        let some = |list: &Option<Vec<String>>| {
            list.as_ref().filter(|list| !list.is_empty()).map(|list| list.join(" "))
        };
        match (some(names), lun, some(ids)) {
            (Some(names), Some(lun), _) => Some(format_smolstr!("kubernetes.io/fc/[{names}]:{lun}")),
            (_, _, Some(ids)) => Some(format_smolstr!("kubernetes.io/fc/[{ids}]")),
            _ => None,
        }
    }
}

impl Translated {
    /// Whether it may be on one node only, given the access modes of its PersistentVolume if it has one.
    pub(super) fn is_exclusive(&self, modes: Option<&[SmolStr]>) -> bool {
        match modes {
            None => is_exclusive(&[self.mode.into()]),
            Some(modes) if self.shares_for_reading_only => modes.iter().any(|mode| mode != "ReadOnlyMany"),
            Some(modes) => is_exclusive(modes),
        }
    }

    /// The spec of an equivalent PersistentVolume.
    pub(super) fn spec(&self) -> Value {
        let DriverVolume { driver, handle } = &self.volume;
        let mut csi = json!({"driver": driver, "volumeHandle": handle});
        if self.read_only {
            csi["readOnly"] = true.into();
        }
        if !self.fs_type.is_empty() {
            csi["fsType"] = self.fs_type.as_str().into();
        }
        if !self.attributes.is_empty() {
            csi["volumeAttributes"] = json!(self.attributes);
        }
        if let Some((name, namespace)) = &self.secret {
            csi["nodeStageSecretRef"] = json!({"name": name, "namespace": namespace});
        }
        json!({"csi": csi, "accessModes": [self.mode], "volumeMode": "Filesystem"})
    }
}

impl Partitioned {
    fn as_volume(&self, driver: &'static str, handle: impl Into<SmolStr>, mode: &'static str) -> Translated {
        let volume = DriverVolume { driver: SmolStr::new_static(driver), handle: handle.into() };
        let (fs_type, read_only) = (self.fs_type.clone(), self.read_only);
        Translated { volume, fs_type, read_only, mode, ..Translated::default() }
    }
}

impl AzureDisk {
    /// The driver has replaced the plugin only for managed disks.
    fn translate(&self) -> Option<Translated> {
        if self.kind.as_ref().is_some_and(|kind| !kind.eq_ignore_ascii_case("Managed")) {
            return None;
        }
        let mut attributes = BTreeMap::from([("kind", "Managed".to_owned())]);
        if let Some(mode) = self.caching_mode.as_ref().filter(|mode| !mode.is_empty()) {
            attributes.insert("cachingmode", mode.clone());
        }
        if let Some(fs_type) = &self.fs_type {
            attributes.insert("fstype", fs_type.clone());
        }
        Some(Translated {
            volume: DriverVolume {
                driver: SmolStr::new_static(drivers::AZURE_DISK),
                handle: self.uri.as_str().into(),
            },
            title: self.uri.as_str().into(),
            fs_type: self.fs_type.clone().unwrap_or_default(),
            read_only: self.read_only.unwrap_or_default(),
            attributes,
            mode: "ReadWriteOnce",
            ..Translated::default()
        })
    }
}

impl AzureFile {
    fn translate(&self, origin: &Origin<'_>) -> Option<Translated> {
        let account = self.secret_name.split_once("azure-storage-account-").and_then(|(_, rest)| {
            rest.rsplit_once("-secret").map(|(account, _)| account).filter(|account| !account.is_empty())
        });
        let account = account.unwrap_or(&self.secret_name);
        let (group, name, namespace) = match origin {
            Origin::Pod { namespace, volume } => ("", *volume, *namespace),
            Origin::Volume(volume) => {
                let claim = volume.spec.claim_ref.as_ref().map(|claim| claim.namespace.as_str());
                let namespace = self.secret_namespace.as_deref().or(claim).filter(|name| !name.is_empty())?;
                let group = volume.metadata.annotations.get(RESOURCE_GROUP).unwrap_or_default();
                (group, volume.metadata.name.as_str(), namespace)
            }
        };
        let handle = format_smolstr!("{group}#{account}#{}#{name}#{namespace}", self.share_name);
        Some(Translated {
            volume: DriverVolume { driver: SmolStr::new_static(drivers::AZURE_FILE), handle: handle.clone() },
            title: handle,
            read_only: self.read_only,
            attributes: [("sharename", self.share_name.clone())].into(),
            secret: Some((self.secret_name.clone(), namespace.to_owned())),
            mode: "ReadWriteMany",
            ..Translated::default()
        })
    }
}

impl VsphereVolume {
    fn translate(&self) -> Translated {
        let policy = Some(("storagepolicyname", self.storage_policy_name.clone()));
        Translated {
            volume: DriverVolume {
                driver: SmolStr::new_static(drivers::VSPHERE),
                handle: self.volume_path.as_str().into(),
            },
            fs_type: self.fs_type.clone(),
            attributes: policy.filter(|(_, name)| !name.is_empty()).into_iter().collect(),
            mode: "ReadWriteOnce",
            ..Translated::default()
        }
    }
}

/// The volume's id, also from a name like `aws://zone/vol-1234`.
fn ebs_handle(id: &str) -> Option<&str> {
    let Some(rest) = id.strip_prefix("aws://") else { return Some(id) };
    let id = rest.split_once('/')?.1.trim_matches('/');
    (id.starts_with("vol-") && !id.contains('/')).then_some(id)
}

/// The path of a Google disk: zonal, or regional if its volume is in several zones.
fn gce_handle(disk: &str, origin: &Origin<'_>) -> Option<SmolStr> {
    let zones = match origin {
        Origin::Pod { .. } => "",
        Origin::Volume(volume) => {
            let labels = &volume.metadata.labels;
            let zones = labels.get(BETA_ZONE).filter(|zones| !zones.is_empty()).or_else(|| labels.get(ZONE));
            zones.unwrap_or_default()
        }
    };
    let mut each = zones.split(ZONE_SEPARATOR);
    let (first, more) = (each.next().unwrap_or_default(), each.clone().next().is_some());
    if !more {
        let zone = if first.is_empty() { UNSPECIFIED } else { first };
        return Some(format_smolstr!("projects/{UNSPECIFIED}/zones/{zone}/disks/{disk}"));
    }
    // A zone is called like `europe-west1-b`, and all must be of one region.
    let region = |zone: &str| {
        let (region, _) = zone.rsplit_once('-')?;
        (region.matches('-').count() == 1).then(|| region.to_owned())
    };
    let of_first = region(first)?;
    let is_one = each.all(|zone| region(zone).as_deref() == Some(of_first.as_str()));
    is_one.then(|| format_smolstr!("projects/{UNSPECIFIED}/regions/{of_first}/disks/{disk}"))
}
