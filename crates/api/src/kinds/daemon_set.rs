//! DaemonSets.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::condition::Condition;
use crate::de::{null_default, skip};
use crate::{HasTemplate, IntOrString, LabelSelector, ObjectMeta, PodTemplate, Templated, resource};

/// An apps/v1 DaemonSet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DaemonSet {
    pub metadata: ObjectMeta,
    pub spec: Templated<DaemonSetSpec>,
    pub status: DaemonSetStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DaemonSetSpec {
    pub selector: Option<LabelSelector>,
    pub template: PodTemplate,
    pub update_strategy: DaemonSetUpdateStrategy,
    /// How long a pod must be ready to be available.
    pub min_ready_seconds: i32,
    pub revision_history_limit: Option<i32>,
}

/// How old pods are replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DaemonSetUpdateStrategy {
    /// `RollingUpdate` or `OnDelete`.
    #[serde(rename = "type", skip_serializing_if = "SmolStr::is_empty")]
    pub type_: SmolStr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdateDaemonSet>,
}

/// Bounds of a rolling update.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RollingUpdateDaemonSet {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrString>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DaemonSetStatus {
    pub current_number_scheduled: i32,
    pub number_misscheduled: i32,
    pub desired_number_scheduled: i32,
    pub number_ready: i32,
    /// The generation of the spec that this is about.
    #[serde(skip_serializing_if = "skip::zero")]
    pub observed_generation: i64,
    #[serde(skip_serializing_if = "skip::zero")]
    pub updated_number_scheduled: i32,
    #[serde(skip_serializing_if = "skip::zero")]
    pub number_available: i32,
    #[serde(skip_serializing_if = "skip::zero")]
    pub number_unavailable: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl HasTemplate for DaemonSetSpec {
    fn template(&self) -> &PodTemplate {
        &self.template
    }
}

resource!(DaemonSet, "apps", "v1", "daemonsets", "DaemonSet", namespaced);
