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
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub subsets: Vec<EndpointSubset>,
}

/// Addresses that have the same ports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointSubset {
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<EndpointAddress>,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub not_ready_addresses: Vec<EndpointAddress>,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<EndpointPort>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointAddress {
    pub ip: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub hostname: SmolStr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<SmolStr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<SharedReference>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointPort {
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub name: SmolStr,
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub protocol: SmolStr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<SmolStr>,
}

resource!(Endpoints, "", "v1", "endpoints", "Endpoints", namespaced);
