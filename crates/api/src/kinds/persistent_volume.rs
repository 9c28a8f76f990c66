//! PersistentVolumes.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::de::null_default;
use crate::object_reference::ObjectReference;
use crate::{ObjectMeta, RawJson, ResourceList, Timestamp, WithRaw, intern, resource, time};

/// A v1 PersistentVolume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolume {
    pub metadata: ObjectMeta,
    pub spec: WithRaw<PersistentVolumeSpec>,
    pub status: PersistentVolumeStatus,
}

/// The spec of a [`PersistentVolume`]. The source is in the raw form, but for those read here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolumeSpec {
    pub capacity: ResourceList,
    #[serde(deserialize_with = "null_default")]
    pub access_modes: Vec<SmolStr>,
    pub claim_ref: Option<ObjectReference>,
    /// `Retain`, `Delete` or `Recycle`.
    pub persistent_volume_reclaim_policy: SmolStr,
    /// Its class; empty for none.
    pub storage_class_name: SmolStr,
    #[serde(deserialize_with = "null_default")]
    pub mount_options: Vec<SmolStr>,
    /// `Filesystem` or `Block`.
    pub volume_mode: Option<SmolStr>,
    /// The nodes that can access it, as served.
    pub node_affinity: Option<RawJson>,
    pub volume_attributes_class_name: Option<SmolStr>,
    pub csi: Option<CsiSource>,
    /// A directory of a node, as served.
    pub host_path: Option<RawJson>,
    /// An NFS share, as served.
    pub nfs: Option<RawJson>,
    /// A disk of a node, as served.
    pub local: Option<RawJson>,
}

/// A volume of a CSI driver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiSource {
    #[serde(deserialize_with = "intern::text")]
    pub driver: SmolStr,
    pub volume_handle: SmolStr,
    /// Whether it can only be read.
    pub read_only: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolumeStatus {
    /// `Pending`, `Available`, `Bound`, `Released` or `Failed`.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub phase: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub message: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub reason: SmolStr,
    #[serde(with = "time::seconds_opt", skip_serializing_if = "Option::is_none")]
    pub last_phase_transition_time: Option<Timestamp>,
}

resource!(PersistentVolume, "", "v1", "persistentvolumes", "PersistentVolume", cluster);
