//! PodGroups: pods that are scheduled together, and the devices that they share.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::de::null_default;
use crate::pod::{PodResourceClaim, PodResourceClaimStatus};
use crate::{ObjectMeta, resource};

/// A scheduling.k8s.io/v1alpha2 PodGroup with the fields that controllers read.
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
    pub pod_group_template_ref: Option<PodGroupTemplateReference>,
    #[serde(deserialize_with = "null_default")]
    pub resource_claims: Vec<PodResourceClaim>,
}

impl PodGroupSpec {
    /// The podGroupTemplate of a Workload that the group references.
    pub fn workload_template(&self) -> Option<&WorkloadTemplateReference> {
        self.pod_group_template_ref.as_ref()?.workload.as_ref()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodGroupTemplateReference {
    pub workload: Option<WorkloadTemplateReference>,
}

/// A template of a Workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorkloadTemplateReference {
    pub workload_name: SmolStr,
    pub pod_group_template_name: SmolStr,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroupStatus {
    #[serde(deserialize_with = "null_default")]
    pub resource_claim_statuses: Vec<PodResourceClaimStatus>,
}

resource!(PodGroup, "scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", namespaced);
