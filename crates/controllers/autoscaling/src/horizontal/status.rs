//! The conditions, events and status of an autoscaler, in upstream's words. Pure.

use flyball_api::Timestamp;
use flyball_api::condition::{self, Condition, FALSE, TRUE};
use flyball_api::horizontal_pod_autoscaler::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus, MetricStatus,
};
use flyball_runtime::Event;
use smol_str::SmolStr;

use super::decision::SelectorError;
use super::normalize::{Direction, Limit, Normalized};

const ABLE: &str = "AbleToScale";
const ACTIVE: &str = "ScalingActive";
const LIMITED: &str = "ScalingLimited";
/// Whether the autoscaler, and not a user, has scaled the workload to zero.
pub(super) const SCALED_TO_ZERO: &str = "ScaledToZero";

/// The conditions and events of one sync, as they come up.
#[derive(Debug, Clone)]
pub struct Report {
    conditions: Vec<Condition>,
    pub events: Vec<Event>,
    now: Timestamp,
}

impl Report {
    /// Begins with the conditions that the status has.
    pub fn new(hpa: &HorizontalPodAutoscaler, now: Timestamp) -> Self {
        Self { conditions: hpa.status.conditions.clone(), events: vec![], now }
    }

    fn set(&mut self, type_: &'static str, holds: bool, reason: &'static str, message: impl Into<SmolStr>) {
        let new = Condition {
            type_: SmolStr::new_static(type_),
            status: SmolStr::new_static(if holds { TRUE } else { FALSE }),
            last_transition_time: Some(self.now),
            reason: SmolStr::new_static(reason),
            message: message.into(),
            ..Condition::default()
        };
        condition::set(&mut self.conditions, new);
    }

    pub fn warn(&mut self, reason: &'static str, message: impl Into<String>) {
        self.events.push(Event::warning(reason, message.into()));
    }

    pub fn scale_known(&mut self) {
        let message = "the HPA controller was able to get the target's current scale";
        self.set(ABLE, true, "SucceededGetScale", message);
    }

    pub fn scale_unknown(&mut self, error: &str) {
        self.warn("FailedGetScale", error);
        let message = format!("the HPA controller was unable to get the target's current scale: {error}");
        self.set(ABLE, false, "FailedGetScale", message);
    }

    /// A user has scaled the workload to zero.
    pub fn disabled(&mut self, may_scale_to_zero: bool) {
        let message = "scaling is disabled since the replica count of the target is zero";
        self.set(ACTIVE, false, "ScalingDisabled", message);
        if !may_scale_to_zero {
            condition::remove(&mut self.conditions, SCALED_TO_ZERO);
        }
    }

    /// The pods of the workload are not known; returns the error.
    pub fn selector(&mut self, error: &SelectorError) -> String {
        let (reason, problem) = match error {
            SelectorError::Missing => {
                let problem = "selector is required";
                self.warn("SelectorRequired", problem);
                self.set(ACTIVE, false, "InvalidSelector", "the HPA target's scale is missing a selector");
                return problem.to_owned();
            }
            SelectorError::Invalid(problem) => ("InvalidSelector", problem),
            SelectorError::Ambiguous(problem) => ("AmbiguousSelector", problem),
        };
        self.warn(reason, problem);
        self.set(ACTIVE, false, reason, problem);
        problem.clone()
    }

    pub(super) fn valid_metric(&mut self, metric: &str) {
        let message = format!("the HPA was able to successfully calculate a replica count from {metric}");
        self.set(ACTIVE, true, "ValidMetricFound", message);
    }

    pub(super) fn invalid_metrics(&mut self, reason: &'static str, problem: &str) {
        let message = format!("the HPA was unable to compute the replica count: {problem}");
        self.set(ACTIVE, false, reason, message);
    }

    pub(super) fn normalized(&mut self, normalized: &Normalized) {
        let (reason, message) = match normalized.held.as_ref().map(|held| held.direction) {
            None => ("ReadyForNewScale", "recommended size matches current size"),
            Some(Direction::Up) => (
                "ScaleUpStabilized",
                "recent recommendations were lower than current one, applying the lowest recent recommendation",
            ),
            Some(Direction::Down) => (
                "ScaleDownStabilized",
                "recent recommendations were higher than current one, applying the highest recent recommendation",
            ),
        };
        self.set(ABLE, true, reason, message);
        let (reason, message) = match normalized.limit {
            Limit::Nothing => ("DesiredWithinRange", "the desired count is within the acceptable range"),
            Limit::UpRate => {
                ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
            }
            Limit::DownRate => (
                "ScaleDownLimit",
                "the desired replica count is decreasing faster than the maximum scale rate",
            ),
            Limit::Max => {
                ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
            }
            Limit::Min => {
                ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
            }
        };
        self.set(LIMITED, normalized.is_limited, reason, message);
    }

    pub(super) fn rescaled(&mut self, replicas: i32) {
        let message = format!("the HPA controller was able to update the target scale to {replicas}");
        self.set(ABLE, true, "SucceededRescale", message);
    }

    pub(super) fn not_rescaled(&mut self, error: &str) {
        let message = format!("the HPA controller was unable to update the target scale: {error}");
        self.set(ABLE, false, "FailedUpdateScale", message);
    }

    /// Whether the rescale was one to zero; `None` removes the condition, where autoscalers may not scale to zero.
    pub(super) fn scaled_to_zero(&mut self, is_to_zero: Option<bool>) {
        match is_to_zero {
            Some(true) => {
                let message = "the HPA controller scaled the workload to zero";
                self.set(SCALED_TO_ZERO, true, "ScaledToZero", message);
            }
            Some(false) => {
                let message = "the HPA controller did not scale the workload to zero";
                self.set(SCALED_TO_ZERO, false, "NotScaledToZero", message);
            }
            None => {
                condition::remove(&mut self.conditions, SCALED_TO_ZERO);
            }
        }
    }

    /// The status when the scale is not known: only the conditions change.
    pub fn unchanged(&self, hpa: &HorizontalPodAutoscaler) -> HorizontalPodAutoscalerStatus {
        HorizontalPodAutoscalerStatus { conditions: self.conditions.clone(), ..hpa.status.clone() }
    }

    /// The status when the workload has `current` replicas.
    pub fn status(
        &self,
        hpa: &HorizontalPodAutoscaler,
        current: i32,
        desired: Desired,
        metrics: Option<Vec<MetricStatus>>,
    ) -> HorizontalPodAutoscalerStatus {
        let known = &hpa.status;
        let (desired_replicas, last_scale_time) = match desired {
            Desired::Unknown => (known.desired_replicas, known.last_scale_time),
            Desired::AsIs => (current, known.last_scale_time),
            Desired::Set(replicas) => (replicas, Some(self.now)),
        };
        HorizontalPodAutoscalerStatus {
            observed_generation: None,
            last_scale_time,
            current_replicas: current,
            desired_replicas,
            current_metrics: metrics,
            conditions: self.conditions.clone(),
        }
    }
}

/// How a sync changed the number of replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Desired {
    /// It could not be determined, or not be set.
    Unknown,
    AsIs,
    Set(i32),
}

/// Whether a status differs from the one that the autoscaler has.
pub fn is_new(old: &HorizontalPodAutoscalerStatus, new: &HorizontalPodAutoscalerStatus) -> bool {
    // No metrics and an empty list of metrics are the same.
    let plain = |status: &HorizontalPodAutoscalerStatus| HorizontalPodAutoscalerStatus {
        current_metrics: status.current_metrics.clone().filter(|metrics| !metrics.is_empty()),
        ..status.clone()
    };
    plain(old) != plain(new)
}
