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
    /// Standard metadata.
    pub metadata: ObjectMeta,
    /// What to scale, by which measures.
    pub spec: WithRaw<HorizontalPodAutoscalerSpec>,
    /// What was measured and done.
    pub status: HorizontalPodAutoscalerStatus,
}

/// The spec of a [`HorizontalPodAutoscaler`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HorizontalPodAutoscalerSpec {
    /// What to scale.
    pub scale_target_ref: ScaleTarget,
    /// At least so many; one when absent.
    pub min_replicas: Option<i32>,
    /// At most so many.
    pub max_replicas: i32,
    /// The measures; the largest answer counts.
    #[serde(deserialize_with = "null_default")]
    pub metrics: Vec<MetricSpec>,
    /// How fast to go.
    pub behavior: Option<Behavior>,
}

/// An object by kind and name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScaleTarget {
    /// Its kind.
    pub kind: SmolStr,
    /// Its name.
    pub name: SmolStr,
    /// Its group and version.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub api_version: SmolStr,
}

/// How fast to scale.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Behavior {
    /// Upwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScalingRules>,
    /// Downwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScalingRules>,
}

/// How fast to scale in one direction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScalingRules {
    /// How far back recommendations count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stabilization_window_seconds: Option<i32>,
    /// `Max`, `Min` or `Disabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub select_policy: Option<SmolStr>,
    /// The bounds on each step.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<ScalingPolicy>,
    /// How far a measure may be off without a change.
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
    /// How many or how much.
    pub value: i32,
    /// In what time.
    pub period_seconds: i32,
}

/// One measure and its aim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MetricSpec {
    /// Which of the following it is.
    #[serde(rename = "type")]
    pub type_: SmolStr,
    /// A measure of one object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectMetric>,
    /// A measure of each pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodsMetric>,
    /// CPU or memory of pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceMetric>,
    /// CPU or memory of one container of each pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_resource: Option<ContainerResourceMetric>,
    /// A measure from outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalMetric>,
}

/// A measure of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectMetric {
    /// The object.
    pub described_object: ScaleTarget,
    /// The aim.
    pub target: MetricTarget,
    /// The measure.
    pub metric: MetricIdentifier,
}

/// A measure of each pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodsMetric {
    /// The measure.
    pub metric: MetricIdentifier,
    /// The aim.
    pub target: MetricTarget,
}

/// CPU or memory of pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceMetric {
    /// The resource.
    pub name: SmolStr,
    /// The aim.
    pub target: MetricTarget,
}

/// CPU or memory of one container of each pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerResourceMetric {
    /// The resource.
    pub name: SmolStr,
    /// The aim.
    pub target: MetricTarget,
    /// The container.
    pub container: SmolStr,
}

/// A measure from outside.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExternalMetric {
    /// The measure.
    pub metric: MetricIdentifier,
    /// The aim.
    pub target: MetricTarget,
}

/// A measure by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MetricIdentifier {
    /// Its name.
    pub name: SmolStr,
    /// Which of its series.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// An aim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MetricTarget {
    /// `Utilization`, `Value` or `AverageValue`.
    #[serde(rename = "type")]
    pub type_: SmolStr,
    /// In all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Quantity>,
    /// For each pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_value: Option<Quantity>,
    /// In percent of the requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_utilization: Option<i32>,
}

/// The status of a [`HorizontalPodAutoscaler`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HorizontalPodAutoscalerStatus {
    /// The generation of the spec that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When it last scaled.
    #[serde(with = "time::seconds_opt", skip_serializing_if = "Option::is_none")]
    pub last_scale_time: Option<Timestamp>,
    /// How many pods there were.
    #[serde(skip_serializing_if = "skip::zero")]
    pub current_replicas: i32,
    /// How many it asked for.
    pub desired_replicas: i32,
    /// What was measured; null when nothing was.
    pub current_metrics: Option<Vec<MetricStatus>>,
    /// Whether it can act, and what limits it.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// What was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MetricStatus {
    /// Which of the following it is.
    #[serde(rename = "type")]
    pub type_: SmolStr,
    /// A measure of one object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectMetricStatus>,
    /// A measure of each pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodsMetricStatus>,
    /// CPU or memory of pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceMetricStatus>,
    /// CPU or memory of one container of each pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_resource: Option<ContainerResourceMetricStatus>,
    /// A measure from outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalMetricStatus>,
}

/// A measure of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectMetricStatus {
    /// The measure.
    pub metric: MetricIdentifier,
    /// Its value.
    pub current: MetricValue,
    /// The object.
    pub described_object: ScaleTarget,
}

/// A measure of each pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodsMetricStatus {
    /// The measure.
    pub metric: MetricIdentifier,
    /// Its value.
    pub current: MetricValue,
}

/// CPU or memory of pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceMetricStatus {
    /// The resource.
    pub name: SmolStr,
    /// Its value.
    pub current: MetricValue,
}

/// CPU or memory of one container of each pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerResourceMetricStatus {
    /// The resource.
    pub name: SmolStr,
    /// Its value.
    pub current: MetricValue,
    /// The container.
    pub container: SmolStr,
}

/// A measure from outside.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExternalMetricStatus {
    /// The measure.
    pub metric: MetricIdentifier,
    /// Its value.
    pub current: MetricValue,
}

/// A measured value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MetricValue {
    /// In all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Quantity>,
    /// For each pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_value: Option<Quantity>,
    /// In percent of the requests.
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
