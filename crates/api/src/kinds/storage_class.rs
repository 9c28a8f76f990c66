//! StorageClasses and VolumeAttributesClasses.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::de::null_default;
use crate::{Labels, ObjectMeta, RawJson, resource};

/// A storage.k8s.io/v1 StorageClass.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StorageClass {
    pub metadata: ObjectMeta,
    pub provisioner: SmolStr,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub parameters: Labels,
    /// What happens to released volumes: `Delete` or `Retain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaim_policy: Option<SmolStr>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub mount_options: Vec<SmolStr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_volume_expansion: Option<bool>,
    /// `Immediate` or `WaitForFirstConsumer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_binding_mode: Option<SmolStr>,
    /// The topologies in which volumes may be provisioned, as served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_topologies: Option<RawJson>,
}

/// A storage.k8s.io/v1 VolumeAttributesClass.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeAttributesClass {
    pub metadata: ObjectMeta,
    pub driver_name: SmolStr,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub parameters: Labels,
}

resource!(
    VolumeAttributesClass,
    "storage.k8s.io",
    "v1",
    "volumeattributesclasses",
    "VolumeAttributesClass",
    cluster
);
resource!(StorageClass, "storage.k8s.io", "v1", "storageclasses", "StorageClass", cluster);
