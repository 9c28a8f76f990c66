//! ReplicaSets.

use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::de::{null_default, skip};
use crate::{HasTemplate, LabelSelector, ObjectMeta, PodTemplate, Templated, resource};

/// An apps/v1 ReplicaSet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicaSet {
    pub metadata: ObjectMeta,
    pub spec: Templated<ReplicaSetSpec>,
    pub status: ReplicaSetStatus,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicaSetSpec {
    /// How many pods; the server defaults it to one.
    pub replicas: Option<i32>,
    /// How long a pod must be ready to be available.
    pub min_ready_seconds: i32,
    pub selector: Option<LabelSelector>,
    pub template: PodTemplate,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicaSetStatus {
    /// Pods that are neither finished nor being deleted.
    pub replicas: i32,
    #[serde(skip_serializing_if = "skip::zero")]
    pub fully_labeled_replicas: i32,
    #[serde(skip_serializing_if = "skip::zero")]
    pub ready_replicas: i32,
    #[serde(skip_serializing_if = "skip::zero")]
    pub available_replicas: i32,
    /// Pods being deleted; absent when it is not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// The generation of the spec that this is about.
    #[serde(skip_serializing_if = "skip::zero")]
    pub observed_generation: i64,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl HasTemplate for ReplicaSetSpec {
    fn template(&self) -> &PodTemplate {
        &self.template
    }
}

resource!(ReplicaSet, "apps", "v1", "replicasets", "ReplicaSet", namespaced);
