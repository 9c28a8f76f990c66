//! ResourceClaims and their templates: devices asked for by pods.

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
    /// What is asked for, as served.
    pub spec: RawJson,
    /// What was given, to whom.
    pub status: ResourceClaimStatus,
}

/// The status of a [`ResourceClaim`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceClaimStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation: Option<WithRaw<Allocation>>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub reserved_for: Vec<ConsumerReference>,
    /// What drivers say about them, as served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<RawJson>,
}

/// The devices given to a claim, as far as they are read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Allocation {
    pub devices: AllocatedDevices,
    /// Where they can be used, as served.
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
    /// For which request of the claim.
    pub request: SmolStr,
    #[serde(deserialize_with = "intern::text")]
    pub driver: SmolStr,
    #[serde(deserialize_with = "intern::text")]
    pub pool: SmolStr,
    #[serde(deserialize_with = "intern::text")]
    pub device: SmolStr,
    /// Whether it is shared for administration.
    pub admin_access: Option<bool>,
    /// Taints of the device that the claim bears.
    #[serde(deserialize_with = "null_default")]
    pub tolerations: Vec<Toleration>,
}

/// Who may use the devices.
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

/// The spec of a [`ResourceClaimTemplate`].
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
