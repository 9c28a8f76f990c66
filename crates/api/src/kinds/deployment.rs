//! Deployments.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::condition::Condition;
use crate::de::{null_default, skip};
use crate::{HasTemplate, IntOrString, LabelSelector, ObjectMeta, PodTemplate, Templated, resource};

/// An apps/v1 Deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Deployment {
    pub metadata: ObjectMeta,
    pub spec: Templated<DeploymentSpec>,
    pub status: DeploymentStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeploymentSpec {
    /// How many pods; the server defaults it to one.
    pub replicas: Option<i32>,
    pub selector: Option<LabelSelector>,
    pub template: PodTemplate,
    pub strategy: DeploymentStrategy,
    /// How long a pod must be ready to be available.
    pub min_ready_seconds: i32,
    pub revision_history_limit: Option<i32>,
    pub paused: bool,
    pub progress_deadline_seconds: Option<i32>,
}

/// The strategy of replacing old pods step by step.
pub const ROLLING_UPDATE: &str = "RollingUpdate";
/// The strategy of deleting all old pods before making new ones.
pub const RECREATE: &str = "Recreate";

/// How old pods are replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeploymentStrategy {
    /// `RollingUpdate` or `Recreate`.
    #[serde(rename = "type", skip_serializing_if = "SmolStr::is_empty")]
    pub type_: SmolStr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdateDeployment>,
}

/// Bounds of a rolling update.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RollingUpdateDeployment {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrString>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeploymentStatus {
    /// The generation of the spec that this is about.
    #[serde(skip_serializing_if = "skip::zero")]
    pub observed_generation: i64,
    #[serde(skip_serializing_if = "skip::zero")]
    pub replicas: i32,
    #[serde(skip_serializing_if = "skip::zero")]
    pub updated_replicas: i32,
    #[serde(skip_serializing_if = "skip::zero")]
    pub ready_replicas: i32,
    #[serde(skip_serializing_if = "skip::zero")]
    pub available_replicas: i32,
    #[serde(skip_serializing_if = "skip::zero")]
    pub unavailable_replicas: i32,
    /// Pods being deleted; absent when not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
}

impl HasTemplate for DeploymentSpec {
    fn template(&self) -> &PodTemplate {
        &self.template
    }
}

resource!(Deployment, "apps", "v1", "deployments", "Deployment", namespaced);
