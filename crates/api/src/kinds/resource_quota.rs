//! ResourceQuotas.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::de::null_default;
use crate::{ObjectMeta, ResourceList, resource};

/// A v1 ResourceQuota.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceQuota {
    pub metadata: ObjectMeta,
    pub spec: ResourceQuotaSpec,
    pub status: ResourceQuotaStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceQuotaSpec {
    /// At most so much of each.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub hard: ResourceList,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<SmolStr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope_selector: Option<ScopeSelector>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScopeSelector {
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<ScopeRequirement>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScopeRequirement {
    pub scope_name: SmolStr,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: SmolStr,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<SmolStr>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceQuotaStatus {
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub hard: ResourceList,
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub used: ResourceList,
}

resource!(ResourceQuota, "", "v1", "resourcequotas", "ResourceQuota", namespaced);
