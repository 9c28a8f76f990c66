//! PodDisruptionBudgets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::condition::Condition;
use crate::de::{null_default, skip};
use crate::time::Time;
use crate::{IntOrString, LabelSelector, ObjectMeta, WithRaw, resource};

/// A policy/v1 PodDisruptionBudget.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodDisruptionBudget {
    pub metadata: ObjectMeta,
    pub spec: WithRaw<PodDisruptionBudgetSpec>,
    pub status: PodDisruptionBudgetStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodDisruptionBudgetSpec {
    pub min_available: Option<IntOrString>,
    pub max_unavailable: Option<IntOrString>,
    pub selector: Option<LabelSelector>,
    pub unhealthy_pod_eviction_policy: Option<SmolStr>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodDisruptionBudgetStatus {
    /// The generation of the spec that this is about.
    #[serde(skip_serializing_if = "skip::zero")]
    pub observed_generation: i64,
    /// Pods whose eviction was allowed and that are not deleted yet, with the time of the eviction.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub disrupted_pods: BTreeMap<SmolStr, Time>,
    pub disruptions_allowed: i32,
    pub current_healthy: i32,
    pub desired_healthy: i32,
    pub expected_pods: i32,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

resource!(PodDisruptionBudget, "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced);
