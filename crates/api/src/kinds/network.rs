//! ServiceCIDRs and IPAddresses: the addresses of Services.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::condition::Condition;
use crate::de::null_default;
use crate::{ObjectMeta, resource};

/// A networking.k8s.io/v1 ServiceCIDR.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceCIDR {
    pub metadata: ObjectMeta,
    pub spec: ServiceCIDRSpec,
    pub status: ServiceCIDRStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceCIDRSpec {
    /// At most one range per family.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub cidrs: Vec<SmolStr>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceCIDRStatus {
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A networking.k8s.io/v1 IPAddress; its name is the address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IPAddress {
    pub metadata: ObjectMeta,
    pub spec: IPAddressSpec,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IPAddressSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_ref: Option<ParentReference>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ParentReference {
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub group: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub resource: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub namespace: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub name: SmolStr,
}

resource!(IPAddress, "networking.k8s.io", "v1", "ipaddresses", "IPAddress", cluster);
resource!(ServiceCIDR, "networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", cluster);
