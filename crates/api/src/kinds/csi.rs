//! CSINodes and CSIDrivers: which drivers there are, and where.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::de::null_default;
use crate::{ObjectMeta, WithRaw, intern, resource};

/// A storage.k8s.io/v1 CSINode.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CSINode {
    pub metadata: ObjectMeta,
    pub spec: CSINodeSpec,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CSINodeSpec {
    #[serde(deserialize_with = "null_default")]
    pub drivers: Vec<CSINodeDriver>,
}

/// A driver on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CSINodeDriver {
    #[serde(deserialize_with = "intern::text")]
    pub name: SmolStr,
    #[serde(rename = "nodeID")]
    pub node_id: SmolStr,
    #[serde(deserialize_with = "null_default")]
    pub topology_keys: Vec<SmolStr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<VolumeNodeResources>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeNodeResources {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i32>,
}

/// A storage.k8s.io/v1 CSIDriver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CSIDriver {
    pub metadata: ObjectMeta,
    pub spec: WithRaw<CSIDriverSpec>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CSIDriverSpec {
    /// Whether its volumes must be attached; true when absent.
    pub attach_required: Option<bool>,
    /// `Persistent`, `Ephemeral`.
    #[serde(deserialize_with = "null_default")]
    pub volume_lifecycle_modes: Vec<SmolStr>,
    #[serde(rename = "seLinuxMount")]
    pub se_linux_mount: Option<bool>,
}

resource!(CSIDriver, "storage.k8s.io", "v1", "csidrivers", "CSIDriver", cluster);
resource!(CSINode, "storage.k8s.io", "v1", "csinodes", "CSINode", cluster);
