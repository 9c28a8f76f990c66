//! Workloads: what is to be scheduled together, as templates of PodGroups.

use serde::Deserialize;
use smol_str::SmolStr;

use crate::de::null_default;
use crate::{ObjectMeta, RawJson, resource};

/// A scheduling.k8s.io/v1alpha2 Workload with the fields that controllers read.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Workload {
    pub metadata: ObjectMeta,
    pub spec: WorkloadSpec,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorkloadSpec {
    pub controller_ref: Option<TypedLocalObjectReference>,
    #[serde(deserialize_with = "null_default")]
    pub pod_group_templates: Vec<PodGroupTemplate>,
}

/// The object that a Workload belongs to, in the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TypedLocalObjectReference {
    pub api_group: SmolStr,
    pub kind: SmolStr,
    pub name: SmolStr,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroupTemplate {
    pub name: SmolStr,
    /// Copied to PodGroups.
    pub scheduling_policy: RawJson,
}

resource!(Workload, "scheduling.k8s.io", "v1alpha2", "workloads", "Workload", namespaced);
