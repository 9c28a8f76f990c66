//! EndpointSlices: the addresses behind a Service, up to a hundred in each object.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use smol_str::SmolStr;

use crate::de::{few, list};
use crate::object_reference::SharedReference;
use crate::{Labels, ObjectMeta, resource};

/// A discovery.k8s.io/v1 EndpointSlice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointSlice {
    pub metadata: ObjectMeta,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: SmolStr,
    #[serde(deserialize_with = "list")]
    pub endpoints: Vec<Endpoint>,
    #[serde(deserialize_with = "list")]
    pub ports: Vec<EndpointPort>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Endpoint {
    /// Its addresses, of which the first counts.
    #[serde(with = "few")]
    pub addresses: Addresses,
    pub conditions: EndpointConditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<SmolStr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<SharedReference>,
    /// From v1beta1; no longer written.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub deprecated_topology: Labels,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<SmolStr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<SmolStr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<Box<EndpointHints>>,
}

/// Nearly always one.
pub type Addresses = SmallVec<[SmolStr; 1]>;

/// Whether an endpoint can be used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointConditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

/// The clients that should use an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointHints {
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub for_zones: Vec<ForZone>,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub for_nodes: Vec<ForNode>,
}

/// A zone whose clients should use an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ForZone {
    pub name: SmolStr,
}

/// A node whose clients should use an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ForNode {
    pub name: SmolStr,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointPort {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<SmolStr>,
    /// `TCP`, `UDP` or `SCTP`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<SmolStr>,
    /// Its number; all ports when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<SmolStr>,
}

resource!(EndpointSlice, "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", namespaced);
