//! Endpoints: the addresses behind a Service in one object.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::de::list;
use crate::object_reference::SharedReference;
use crate::{ObjectMeta, resource};

/// A v1 Endpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Endpoints {
    /// Standard metadata.
    pub metadata: ObjectMeta,
    /// Addresses by the ports they have.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub subsets: Vec<EndpointSubset>,
}

/// Addresses that have the same ports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointSubset {
    /// Those that are ready.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<EndpointAddress>,
    /// Those that are not.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub not_ready_addresses: Vec<EndpointAddress>,
    /// Their ports.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<EndpointPort>,
}

/// One address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointAddress {
    /// The address.
    pub ip: SmolStr,
    /// Its name.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub hostname: SmolStr,
    /// Its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<SmolStr>,
    /// The pod behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<SharedReference>,
}

/// One port.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointPort {
    /// Its name.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub name: SmolStr,
    /// Its number.
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub protocol: SmolStr,
    /// What is spoken over it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<SmolStr>,
}

resource!(Endpoints, "", "v1", "endpoints", "Endpoints", namespaced);
