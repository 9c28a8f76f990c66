//! What is said about an autoscaler, in conditions and events, word for word as upstream says it. Pure.

use flyball_api::Timestamp;
use flyball_api::condition::{self, Condition, FALSE, TRUE};
use flyball_api::horizontal_pod_autoscaler::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus, MetricStatus,
};
use flyball_runtime::events::EventType;
use smol_str::SmolStr;

use super::pace::{HeldBack, Limit, Paced};
use super::plan::Step;

const ABLE: &str = "AbleToScale";
const ACTIVE: &str = "ScalingActive";
const LIMITED: &str = "ScalingLimited";
/// Whether it was the autoscaler that went to zero.
pub(super) const SCALED_TO_ZERO: &str = "ScaledToZero";

/// What is said in one look, as it comes up.
#[derive(Debug, Clone)]
pub struct Report {
    conditions: Vec<Condition>,
    /// Events to be sent, in order.
    pub events: Vec<Event>,
    now: Timestamp,
}

/// An event to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub type_: EventType,
    pub reason: &'static str,
    pub message: String,
}

impl Report {
    /// Begins with what was said before.
    pub fn new(hpa: &HorizontalPodAutoscaler, now: Timestamp) -> Self {
        Self { conditions: hpa.status.conditions.clone(), events: vec![], now }
    }

    fn say(&mut self, type_: &'static str, holds: bool, reason: &'static str, message: impl Into<SmolStr>) {
        let said = Condition {
            type_: SmolStr::new_static(type_),
            status: SmolStr::new_static(if holds { TRUE } else { FALSE }),
            last_transition_time: Some(self.now),
            reason: SmolStr::new_static(reason),
            message: message.into(),
            ..Condition::default()
        };
        condition::set(&mut self.conditions, said);
    }

    /// Tells of something that may need a person.
    pub fn warn(&mut self, reason: &'static str, message: impl Into<String>) {
        self.events.push(Event { type_: EventType::Warning, reason, message: message.into() });
    }

    /// The scale of the workload is known.
    pub fn scale_known(&mut self) {
        let message = "the HPA controller was able to get the target's current scale";
        self.say(ABLE, true, "SucceededGetScale", message);
    }

    /// The scale of the workload is not known.
    pub fn scale_unknown(&mut self, error: &str) {
        self.warn("FailedGetScale", error);
        let message = format!("the HPA controller was unable to get the target's current scale: {error}");
        self.say(ABLE, false, "FailedGetScale", message);
    }

    /// The workload is switched off.
    pub fn off(&mut self, may_scale_to_zero: bool) {
        let message = "scaling is disabled since the replica count of the target is zero";
        self.say(ACTIVE, false, "ScalingDisabled", message);
        if !may_scale_to_zero {
            condition::remove(&mut self.conditions, SCALED_TO_ZERO);
        }
    }

    /// The workload does not say which pods are its own.
    pub fn no_selector(&mut self) {
        self.warn("SelectorRequired", "selector is required");
        self.say(ACTIVE, false, "InvalidSelector", "the HPA target's scale is missing a selector");
    }

    /// The pods of the workload cannot be found, or are others' as well.
    pub fn bad_selector(&mut self, reason: &'static str, problem: &str) {
        self.warn(reason, problem);
        self.say(ACTIVE, false, reason, problem);
    }

    pub(super) fn measured(&mut self, metric: &str) {
        let message = format!("the HPA was able to successfully calculate a replica count from {metric}");
        self.say(ACTIVE, true, "ValidMetricFound", message);
    }

    pub(super) fn unmeasured(&mut self, reason: &'static str, problem: &str) {
        let message = format!("the HPA was unable to compute the replica count: {problem}");
        self.say(ACTIVE, false, reason, message);
    }

    pub(super) fn paced(&mut self, paced: &Paced) {
        let (reason, message) = match paced.held_back {
            HeldBack::Not => ("ReadyForNewScale", "recommended size matches current size"),
            HeldBack::Up => (
                "ScaleUpStabilized",
                "recent recommendations were lower than current one, applying the lowest recent recommendation",
            ),
            HeldBack::Down => (
                "ScaleDownStabilized",
                "recent recommendations were higher than current one, applying the highest recent recommendation",
            ),
        };
        self.say(ABLE, true, reason, message);
        let (reason, message) = match paced.limit {
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
        self.say(LIMITED, paced.is_limited, reason, message);
    }

    pub(super) fn rescaled(&mut self, step: &Step) {
        let Step { replicas, reason } = step;
        let message = format!("the HPA controller was able to update the target scale to {replicas}");
        self.say(ABLE, true, "SucceededRescale", message);
        let message = format!("New size: {replicas}; reason: {reason}");
        self.events.push(Event { type_: EventType::Normal, reason: "SuccessfulRescale", message });
    }

    pub fn not_rescaled(&mut self, step: &Step, error: &str) {
        let Step { replicas, reason } = step;
        self.warn("FailedRescale", format!("New size: {replicas}; reason: {reason}; error: {error}"));
        let message = format!("the HPA controller was unable to update the target scale: {error}");
        self.say(ABLE, false, "FailedUpdateScale", message);
    }

    /// Whether this was a step to zero; nothing is said about it unless autoscalers may go there.
    pub(super) fn zero(&mut self, is_to_zero: Option<bool>) {
        match is_to_zero {
            Some(true) => {
                let message = "the HPA controller scaled the workload to zero";
                self.say(SCALED_TO_ZERO, true, "ScaledToZero", message);
            }
            Some(false) => {
                let message = "the HPA controller did not scale the workload to zero";
                self.say(SCALED_TO_ZERO, false, "NotScaledToZero", message);
            }
            None => {
                condition::remove(&mut self.conditions, SCALED_TO_ZERO);
            }
        }
    }

    /// The status when nothing is known about the workload: as it was, but for what is said.
    pub fn unchanged(&self, hpa: &HorizontalPodAutoscaler) -> HorizontalPodAutoscalerStatus {
        HorizontalPodAutoscalerStatus { conditions: self.conditions.clone(), ..hpa.status.clone() }
    }

    /// The status after a look at a workload with `current` replicas.
    pub fn status(
        &self,
        hpa: &HorizontalPodAutoscaler,
        current: i32,
        desired: Desired,
        shown: Option<Vec<MetricStatus>>,
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
            current_metrics: shown,
            conditions: self.conditions.clone(),
        }
    }
}

/// What became of the number of replicas in a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Desired {
    /// It could not be told.
    Unknown,
    AsIs,
    Set(i32),
}

/// Whether a status says anything that was not said before.
pub fn is_news(old: &HorizontalPodAutoscalerStatus, new: &HorizontalPodAutoscalerStatus) -> bool {
    // Nothing measured is the same as an empty list of measures.
    let plain = |status: &HorizontalPodAutoscalerStatus| HorizontalPodAutoscalerStatus {
        current_metrics: status.current_metrics.clone().filter(|metrics| !metrics.is_empty()),
        ..status.clone()
    };
    plain(old) != plain(new)
}
