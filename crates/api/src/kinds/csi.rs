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
    /// The drivers of a node.
    pub spec: CSINodeSpec,
}

/// The spec of a [`CSINode`].
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
    /// What the driver calls the node.
    #[serde(rename = "nodeID")]
    pub node_id: SmolStr,
    /// What tells its places apart.
    #[serde(deserialize_with = "null_default")]
    pub topology_keys: Vec<SmolStr>,
    /// How much it can take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<VolumeNodeResources>,
}

/// How much a driver can take on a node.
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
    /// What the driver can do.
    pub spec: WithRaw<CSIDriverSpec>,
}

/// The spec of a [`CSIDriver`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CSIDriverSpec {
    /// Whether its volumes must be attached; true when absent.
    pub attach_required: Option<bool>,
    /// `Persistent`, `Ephemeral`.
    #[serde(deserialize_with = "null_default")]
    pub volume_lifecycle_modes: Vec<SmolStr>,
    /// Whether it can mount with a security label.
    #[serde(rename = "seLinuxMount")]
    pub se_linux_mount: Option<bool>,
}

resource!(CSIDriver, "storage.k8s.io", "v1", "csidrivers", "CSIDriver", cluster);
resource!(CSINode, "storage.k8s.io", "v1", "csinodes", "CSINode", cluster);
