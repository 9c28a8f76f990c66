//! The controller's own metrics, under upstream's names.

use std::time::Duration;

use flyball_api::Key;
use flyball_runtime::Metrics;
use flyball_runtime::metrics::{Family, Stability};

const SECONDS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];
static RECONCILIATIONS: Family = Family::counter(
    "horizontal_pod_autoscaler_controller_reconciliations_total",
    Stability::Beta,
    &["action", "error"],
    "Looks at autoscalers, by what was done and what kind of error came up.",
);
static RECONCILIATION_DURATION: Family = Family::histogram(
    "horizontal_pod_autoscaler_controller_reconciliation_duration_seconds",
    Stability::Beta,
    &["action", "error"],
    SECONDS,
    "How long a reconciliation took, by action and kind of error.",
);
static COMPUTATIONS: Family = Family::counter(
    "horizontal_pod_autoscaler_controller_metric_computation_total",
    Stability::Beta,
    &["action", "error", "metric_type"],
    "Number of metric computations, by proposed action, kind of error and type of metric.",
);
static COMPUTATION_DURATION: Family = Family::histogram(
    "horizontal_pod_autoscaler_controller_metric_computation_duration_seconds",
    Stability::Beta,
    &["action", "error", "metric_type"],
    SECONDS,
    "How long a metric computation took, by proposed action, kind of error and type of metric.",
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

/// The kind of an error, for metrics.
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

pub(super) struct Monitor(pub(super) Metrics);

impl Monitor {
    pub(super) fn reconciled(&self, action: Action, fault: Fault, took: Duration) {
        let labels = [action.label(), fault.label()];
        self.0.counter(&RECONCILIATIONS, &labels).inc();
        self.0.histogram(&RECONCILIATION_DURATION, &labels).observe(took.as_secs_f64());
    }

    /// The replicas that one metric calls for were computed.
    pub(super) fn computed(&self, (action, fault): (Action, Fault), type_: &str, took: Duration) {
        let labels = [action.label(), fault.label(), type_];
        self.0.counter(&COMPUTATIONS, &labels).inc();
        self.0.histogram(&COMPUTATION_DURATION, &labels).observe(took.as_secs_f64());
    }

    pub(super) fn autoscalers(&self, count: usize) {
        self.0.gauge(&AUTOSCALERS, &[]).set(count as f64);
    }

    pub(super) fn desired(&self, key: &Key, replicas: i32) {
        self.0.gauge(&DESIRED, &[&key.namespace, &key.name]).set(f64::from(replicas));
    }

    /// Removes the metrics of an autoscaler that is gone.
    pub(super) fn forget(&self, key: &Key) {
        self.0.forget(&DESIRED, &[&key.namespace, &key.name]);
    }
}
