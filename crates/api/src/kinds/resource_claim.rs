//! ResourceClaims and their templates: devices that pods request.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::de::null_default;
use crate::taint::Toleration;
use crate::{ObjectMeta, RawJson, Timestamp, Uid, WithRaw, intern, resource, time};

/// A resource.k8s.io/v1 ResourceClaim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceClaim {
    pub metadata: ObjectMeta,
    /// As served.
    pub spec: RawJson,
    pub status: ResourceClaimStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceClaimStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation: Option<WithRaw<Allocation>>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub reserved_for: Vec<ConsumerReference>,
    /// As served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<RawJson>,
}

/// The allocated devices, as far as controllers read them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Allocation {
    pub devices: AllocatedDevices,
    /// As served.
    pub node_selector: Option<RawJson>,
    #[serde(with = "time::seconds_opt")]
    pub allocation_timestamp: Option<Timestamp>,
}

/// The devices of an [`Allocation`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AllocatedDevices {
    #[serde(deserialize_with = "null_default")]
    pub results: Vec<AllocatedDevice>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AllocatedDevice {
    pub request: SmolStr,
    #[serde(deserialize_with = "intern::text")]
    pub driver: SmolStr,
    #[serde(deserialize_with = "intern::text")]
    pub pool: SmolStr,
    #[serde(deserialize_with = "intern::text")]
    pub device: SmolStr,
    pub admin_access: Option<bool>,
    #[serde(deserialize_with = "null_default")]
    pub tolerations: Vec<Toleration>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConsumerReference {
    /// Group; empty for the core group.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub api_group: SmolStr,
    /// Resource, such as `pods`.
    pub resource: SmolStr,
    pub name: SmolStr,
    pub uid: Uid,
}

/// A resource.k8s.io/v1 ResourceClaimTemplate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceClaimTemplate {
    pub metadata: ObjectMeta,
    pub spec: WithRaw<ResourceClaimTemplateSpec>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceClaimTemplateSpec {
    /// Labels and annotations of the claims to make.
    pub metadata: ObjectMeta,
    pub spec: RawJson,
}

resource!(
    ResourceClaimTemplate,
    "resource.k8s.io",
    "v1",
    "resourceclaimtemplates",
    "ResourceClaimTemplate",
    namespaced
);
resource!(ResourceClaim, "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", namespaced);
