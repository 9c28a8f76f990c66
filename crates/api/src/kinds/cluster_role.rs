//! ClusterRoles, whose rules may be aggregated from others by label.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::de::null_default;
use crate::{LabelSelector, ObjectMeta, resource};

/// A rbac.authorization.k8s.io/v1 ClusterRole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterRole {
    pub metadata: ObjectMeta,
    /// What it allows; null when it was never filled.
    pub rules: Option<Vec<PolicyRule>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregation_rule: Option<AggregationRule>,
}

/// What may be done with what.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PolicyRule {
    #[serde(deserialize_with = "null_default")]
    pub verbs: Vec<SmolStr>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<SmolStr>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<SmolStr>,
    /// With which objects; all when empty.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<SmolStr>,
    #[serde(
        rename = "nonResourceURLs",
        deserialize_with = "null_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub non_resource_urls: Vec<SmolStr>,
}

/// From which roles rules are gathered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AggregationRule {
    /// Any of these must match.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub cluster_role_selectors: Vec<LabelSelector>,
}

resource!(ClusterRole, "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", cluster);
