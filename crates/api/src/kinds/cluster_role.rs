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
    /// `None` in an aggregated role whose rules were never set.
    pub rules: Option<Vec<PolicyRule>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregation_rule: Option<AggregationRule>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PolicyRule {
    #[serde(deserialize_with = "null_default")]
    pub verbs: Vec<SmolStr>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<SmolStr>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<SmolStr>,
    /// Names of objects; empty for all.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<SmolStr>,
    #[serde(
        rename = "nonResourceURLs",
        deserialize_with = "null_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub non_resource_urls: Vec<SmolStr>,
}

/// The roles from which the rules are aggregated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AggregationRule {
    /// Any of these must match.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub cluster_role_selectors: Vec<LabelSelector>,
}

resource!(ClusterRole, "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", cluster);
