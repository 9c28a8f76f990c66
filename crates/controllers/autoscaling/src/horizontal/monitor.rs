//! What is counted about autoscaling, under upstream's names.

use std::time::Duration;

use flyball_api::Key;
use flyball_runtime::Metrics;
use flyball_runtime::metrics::{Family, Stability};

const SECONDS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];
static LOOKS: Family = Family::counter(
    "horizontal_pod_autoscaler_controller_reconciliations_total",
    Stability::Beta,
    &["action", "error"],
    "Looks at autoscalers, by what was done and what kind of error came up.",
);
static LOOK_DURATION: Family = Family::histogram(
    "horizontal_pod_autoscaler_controller_reconciliation_duration_seconds",
    Stability::Beta,
    &["action", "error"],
    SECONDS,
    "How long it took to look at an autoscaler, by what was done and what kind of error came up.",
);
static METRICS: Family = Family::counter(
    "horizontal_pod_autoscaler_controller_metric_computation_total",
    Stability::Beta,
    &["action", "error", "metric_type"],
    "Metrics looked at, by what they propose, what kind of error came up, and their type.",
);
static METRIC_DURATION: Family = Family::histogram(
    "horizontal_pod_autoscaler_controller_metric_computation_duration_seconds",
    Stability::Beta,
    &["action", "error", "metric_type"],
    SECONDS,
    "How long it took to look at a metric, by what it proposes, what kind of error came up, and its type.",
);
static AUTOSCALERS: Family = Family::gauge(
    "horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers",
    Stability::Alpha,
    &[],
    "How many autoscalers there are.",
);
static DESIRED: Family = Family::gauge(
    "horizontal_pod_autoscaler_controller_desired_replicas",
    Stability::Alpha,
    &["namespace", "hpa_name"],
    "How many replicas an autoscaler wants.",
);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Up,
    Down,
    None,
}

impl Action {
    /// From one number of replicas to another.
    pub(super) fn of(from: i32, to: i32) -> Self {
        match to.cmp(&from) {
            std::cmp::Ordering::Greater => Self::Up,
            std::cmp::Ordering::Less => Self::Down,
            std::cmp::Ordering::Equal => Self::None,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Up => "scale_up",
            Self::Down => "scale_down",
            Self::None => "none",
        }
    }
}

/// What went wrong, if anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Spec,
    Internal,
    None,
}

impl Fault {
    fn label(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Internal => "internal",
            Self::None => "none",
        }
    }
}

pub(super) struct Numbers(pub(super) Metrics);

impl Numbers {
    pub(super) fn looked(&self, action: Action, fault: Fault, took: Duration) {
        let labels = [action.label(), fault.label()];
        self.0.counter(&LOOKS, &labels).inc();
        self.0.histogram(&LOOK_DURATION, &labels).observe(took.as_secs_f64());
    }

    pub(super) fn measured(&self, action: Action, fault: Fault, type_: &str, took: Duration) {
        let labels = [action.label(), fault.label(), type_];
        self.0.counter(&METRICS, &labels).inc();
        self.0.histogram(&METRIC_DURATION, &labels).observe(took.as_secs_f64());
    }

    pub(super) fn autoscalers(&self, count: usize) {
        self.0.gauge(&AUTOSCALERS, &[]).set(count as f64);
    }

    pub(super) fn desired(&self, key: &Key, replicas: i32) {
        self.0.gauge(&DESIRED, &[&key.namespace, &key.name]).set(f64::from(replicas));
    }

    /// Forgets an autoscaler that is gone.
    pub(super) fn gone(&self, key: &Key) {
        self.0.forget(&DESIRED, &[&key.namespace, &key.name]);
    }
}
