//! StatefulSets.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::condition::Condition;
use crate::de::{null_default, skip};
use crate::{HasTemplate, IntOrString, LabelSelector, ObjectMeta, PodTemplate, Templated, WithRaw, resource};

/// An apps/v1 StatefulSet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatefulSet {
    pub metadata: ObjectMeta,
    pub spec: Templated<StatefulSetSpec>,
    pub status: StatefulSetStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatefulSetSpec {
    /// How many pods; the server defaults it to one.
    pub replicas: Option<i32>,
    pub selector: Option<LabelSelector>,
    pub template: PodTemplate,
    #[serde(deserialize_with = "null_default")]
    pub volume_claim_templates: Vec<WithRaw<ClaimTemplate>>,
    pub service_name: SmolStr,
    /// `OrderedReady` or `Parallel`.
    pub pod_management_policy: SmolStr,
    pub update_strategy: StatefulSetUpdateStrategy,
    pub revision_history_limit: Option<i32>,
    /// How long a pod must be ready to be available.
    pub min_ready_seconds: i32,
    pub persistent_volume_claim_retention_policy: Option<ClaimRetentionPolicy>,
    pub ordinals: Option<Ordinals>,
}

/// What is read of a claim template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimTemplate {
    pub metadata: ObjectMeta,
}

/// How old pods are replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatefulSetUpdateStrategy {
    /// `RollingUpdate` or `OnDelete`.
    #[serde(rename = "type", skip_serializing_if = "SmolStr::is_empty")]
    pub type_: SmolStr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdateStatefulSet>,
}

/// Bounds of a rolling update.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RollingUpdateStatefulSet {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
}

/// What happens to claims: `Retain` or `Delete`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimRetentionPolicy {
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub when_deleted: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub when_scaled: SmolStr,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Ordinals {
    #[serde(skip_serializing_if = "skip::zero")]
    pub start: i32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatefulSetStatus {
    /// The generation of the spec that this is about.
    #[serde(skip_serializing_if = "skip::zero")]
    pub observed_generation: i64,
    pub replicas: i32,
    #[serde(skip_serializing_if = "skip::zero")]
    pub ready_replicas: i32,
    #[serde(skip_serializing_if = "skip::zero")]
    pub current_replicas: i32,
    #[serde(skip_serializing_if = "skip::zero")]
    pub updated_replicas: i32,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub current_revision: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub update_revision: SmolStr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    pub available_replicas: i32,
}

impl HasTemplate for StatefulSetSpec {
    fn template(&self) -> &PodTemplate {
        &self.template
    }
}

resource!(StatefulSet, "apps", "v1", "statefulsets", "StatefulSet", namespaced);
