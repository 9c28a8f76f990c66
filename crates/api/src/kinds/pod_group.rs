//! PodGroups: pods that are scheduled together, and the devices that they share.

use serde::Deserialize;

use crate::de::null_default;
use crate::pod::{PodResourceClaim, PodResourceClaimStatus};
use crate::{ObjectMeta, resource};

/// A scheduling.k8s.io/v1alpha2 PodGroup, as far as controllers look into it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodGroup {
    pub metadata: ObjectMeta,
    pub spec: PodGroupSpec,
    /// What was made for it.
    pub status: PodGroupStatus,
}

/// The spec of a [`PodGroup`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroupSpec {
    /// The devices that its pods share.
    #[serde(deserialize_with = "null_default")]
    pub resource_claims: Vec<PodResourceClaim>,
}

/// The status of a [`PodGroup`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroupStatus {
    /// The claims made for it from templates.
    #[serde(deserialize_with = "null_default")]
    pub resource_claim_statuses: Vec<PodResourceClaimStatus>,
}

resource!(PodGroup, "scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", namespaced);
