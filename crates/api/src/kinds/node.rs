//! Nodes. Large parts that no controller reads, such as image lists, are not kept.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::condition::Condition;
use crate::de::{null_default, skip};
use crate::taint::Taint;
use crate::{ObjectMeta, ResourceList, intern, resource};

/// A v1 Node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Node {
    pub metadata: ObjectMeta,
    pub spec: NodeSpec,
    pub status: NodeStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSpec {
    /// The first of `pod_cidrs`.
    #[serde(rename = "podCIDR", skip_serializing_if = "SmolStr::is_empty")]
    pub pod_cidr: SmolStr,
    /// Ranges from which its pods get addresses, at most one per family.
    #[serde(rename = "podCIDRs", deserialize_with = "null_default", skip_serializing_if = "<[_]>::is_empty")]
    pub pod_cidrs: Box<[SmolStr]>,
    #[serde(rename = "providerID", skip_serializing_if = "SmolStr::is_empty")]
    pub provider_id: SmolStr,
    #[serde(skip_serializing_if = "skip::off")]
    pub unschedulable: bool,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "<[_]>::is_empty")]
    pub taints: Box<[Taint]>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeStatus {
    #[serde(deserialize_with = "null_default", skip_serializing_if = "<[_]>::is_empty")]
    pub conditions: Box<[Condition]>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "<[_]>::is_empty")]
    pub addresses: Box<[NodeAddress]>,
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub allocatable: ResourceList,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "<[_]>::is_empty")]
    pub volumes_in_use: Box<[SmolStr]>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "<[_]>::is_empty")]
    pub volumes_attached: Box<[AttachedVolume]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_info: Option<Box<NodeSystemInfo>>,
}

/// What a kubelet reports about its machine. Clouds use it to find the machine of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSystemInfo {
    #[serde(rename = "machineID", deserialize_with = "null_default")]
    pub machine_id: SmolStr,
    #[serde(rename = "systemUUID", deserialize_with = "null_default")]
    pub system_uuid: SmolStr,
    #[serde(rename = "bootID", deserialize_with = "null_default")]
    pub boot_id: SmolStr,
    #[serde(deserialize_with = "intern::text")]
    pub kernel_version: SmolStr,
    #[serde(deserialize_with = "intern::text")]
    pub os_image: SmolStr,
    #[serde(deserialize_with = "intern::text")]
    pub container_runtime_version: SmolStr,
    #[serde(deserialize_with = "intern::text")]
    pub kubelet_version: SmolStr,
    #[serde(deserialize_with = "intern::text")]
    pub kube_proxy_version: SmolStr,
    #[serde(deserialize_with = "intern::text")]
    pub operating_system: SmolStr,
    #[serde(deserialize_with = "intern::text")]
    pub architecture: SmolStr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<NodeSwap>,
}

/// The swap memory of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSwap {
    /// In bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<i64>,
}

/// One address of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeAddress {
    /// `InternalIP`, `ExternalIP`, `Hostname` and so on.
    #[serde(rename = "type")]
    pub type_: SmolStr,
    pub address: SmolStr,
}

/// A volume attached to a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AttachedVolume {
    pub name: SmolStr,
    pub device_path: SmolStr,
}

impl Node {
    /// The condition of this type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Whether its Ready condition is `True`.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(Condition::is_true)
    }

    /// Whether it has the out-of-service taint.
    pub fn is_declared_out_of_service(&self) -> bool {
        self.spec.taints.iter().any(|taint| taint.key == "node.kubernetes.io/out-of-service")
    }
}

resource!(Node, "", "v1", "nodes", "Node", cluster);
