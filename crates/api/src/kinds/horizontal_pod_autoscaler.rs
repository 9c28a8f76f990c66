//! HorizontalPodAutoscalers.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::condition::Condition;
use crate::de::{null_default, skip};
use crate::{LabelSelector, ObjectMeta, Quantity, Timestamp, WithRaw, resource, time};

/// An autoscaling/v2 HorizontalPodAutoscaler.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HorizontalPodAutoscaler {
    pub metadata: ObjectMeta,
    pub spec: WithRaw<HorizontalPodAutoscalerSpec>,
    pub status: HorizontalPodAutoscalerStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HorizontalPodAutoscalerSpec {
    pub scale_target_ref: ScaleTarget,
    /// The lower limit; one if absent.
    pub min_replicas: Option<i32>,
    pub max_replicas: i32,
    #[serde(deserialize_with = "null_default")]
    pub metrics: Vec<MetricSpec>,
    pub behavior: Option<Behavior>,
}

/// An object by kind and name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScaleTarget {
    pub kind: SmolStr,
    pub name: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub api_version: SmolStr,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Behavior {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScalingRules>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScalingRules>,
}

/// How fast to scale in one direction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScalingRules {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stabilization_window_seconds: Option<i32>,
    /// `Max`, `Min` or `Disabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub select_policy: Option<SmolStr>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<ScalingPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<Quantity>,
}

/// A bound on each step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScalingPolicy {
    /// `Pods` or `Percent`.
    #[serde(rename = "type")]
    pub type_: SmolStr,
    pub value: i32,
    pub period_seconds: i32,
}

/// One measure and its aim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MetricSpec {
    #[serde(rename = "type")]
    pub type_: SmolStr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectMetric>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodsMetric>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceMetric>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_resource: Option<ContainerResourceMetric>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalMetric>,
}

/// A measure of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectMetric {
    pub described_object: ScaleTarget,
    pub target: MetricTarget,
    pub metric: MetricIdentifier,
}

/// A measure of each pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodsMetric {
    pub metric: MetricIdentifier,
    pub target: MetricTarget,
}

/// CPU or memory of pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceMetric {
    pub name: SmolStr,
    pub target: MetricTarget,
}

/// CPU or memory of one container of each pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerResourceMetric {
    pub name: SmolStr,
    pub target: MetricTarget,
    pub container: SmolStr,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExternalMetric {
    pub metric: MetricIdentifier,
    pub target: MetricTarget,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MetricIdentifier {
    pub name: SmolStr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MetricTarget {
    /// `Utilization`, `Value` or `AverageValue`.
    #[serde(rename = "type")]
    pub type_: SmolStr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_value: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_utilization: Option<i32>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HorizontalPodAutoscalerStatus {
    /// The generation of the spec that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(with = "time::seconds_opt", skip_serializing_if = "Option::is_none")]
    pub last_scale_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "skip::zero")]
    pub current_replicas: i32,
    pub desired_replicas: i32,
    /// The measured metrics; null if none was measured.
    pub current_metrics: Option<Vec<MetricStatus>>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MetricStatus {
    #[serde(rename = "type")]
    pub type_: SmolStr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectMetricStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodsMetricStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceMetricStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_resource: Option<ContainerResourceMetricStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalMetricStatus>,
}

/// A measure of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectMetricStatus {
    pub metric: MetricIdentifier,
    pub current: MetricValue,
    pub described_object: ScaleTarget,
}

/// A measure of each pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodsMetricStatus {
    pub metric: MetricIdentifier,
    pub current: MetricValue,
}

/// CPU or memory of pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceMetricStatus {
    pub name: SmolStr,
    pub current: MetricValue,
}

/// CPU or memory of one container of each pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerResourceMetricStatus {
    pub name: SmolStr,
    pub current: MetricValue,
    pub container: SmolStr,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExternalMetricStatus {
    pub metric: MetricIdentifier,
    pub current: MetricValue,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MetricValue {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_value: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_utilization: Option<i32>,
}

resource!(
    HorizontalPodAutoscaler,
    "autoscaling",
    "v2",
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
    namespaced
);
