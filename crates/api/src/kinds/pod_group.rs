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
    pub status: PodGroupStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroupSpec {
    #[serde(deserialize_with = "null_default")]
    pub resource_claims: Vec<PodResourceClaim>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroupStatus {
    #[serde(deserialize_with = "null_default")]
    pub resource_claim_statuses: Vec<PodResourceClaimStatus>,
}

resource!(PodGroup, "scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", namespaced);
