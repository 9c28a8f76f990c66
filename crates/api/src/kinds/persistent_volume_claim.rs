//! PersistentVolumeClaims.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::condition::Condition;
use crate::de::null_default;
use crate::{LabelSelector, Labels, ObjectMeta, RawJson, ResourceList, Resources, WithRaw, resource};

/// A v1 PersistentVolumeClaim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolumeClaim {
    pub metadata: ObjectMeta,
    pub spec: WithRaw<PersistentVolumeClaimSpec>,
    pub status: PersistentVolumeClaimStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolumeClaimSpec {
    #[serde(deserialize_with = "null_default")]
    pub access_modes: Vec<SmolStr>,
    pub selector: Option<LabelSelector>,
    /// The requested size.
    pub resources: Resources,
    pub volume_name: SmolStr,
    /// Its class; absent for the default one, empty for none.
    pub storage_class_name: Option<SmolStr>,
    /// `Filesystem` or `Block`.
    pub volume_mode: Option<SmolStr>,
    /// The source of its initial contents, as served.
    pub data_source: Option<RawJson>,
    /// The source of its initial contents, as served.
    pub data_source_ref: Option<RawJson>,
    pub volume_attributes_class_name: Option<SmolStr>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolumeClaimStatus {
    /// `Pending`, `Bound` or `Lost`.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub phase: SmolStr,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub access_modes: Vec<SmolStr>,
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub capacity: ResourceList,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub allocated_resources: ResourceList,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub allocated_resource_statuses: Labels,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_volume_attributes_class_name: Option<SmolStr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modify_volume_status: Option<ModifyVolumeStatus>,
}

/// The progress of a change of its VolumeAttributesClass.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ModifyVolumeStatus {
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub target_volume_attributes_class_name: SmolStr,
    /// `Pending`, `InProgress` or `Infeasible`.
    pub status: SmolStr,
}

resource!(PersistentVolumeClaim, "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced);
