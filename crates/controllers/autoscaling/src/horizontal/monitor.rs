//! The controller's own metrics, under upstream's names.

use std::time::Duration;

use flyball_api::Key;
use flyball_runtime::Metrics;
use flyball_runtime::metrics::{DOUBLING_SECONDS as SECONDS, Family, Stability};

static RECONCILIATIONS: Family = Family::counter(
    "horizontal_pod_autoscaler_controller_reconciliations_total",
    Stability::Beta,
    &["action", "error"],
    "Number of reconciliations of HPA controller. The label 'action' should be either 'scale_down', 'scale_up', or 'none'. Also, the label 'error' should be either 'spec', 'internal', or 'none'. Note that if both spec and internal errors happen during a reconciliation, the first one to occur is reported in `error` label.",
);
static RECONCILIATION_DURATION: Family = Family::histogram(
    "horizontal_pod_autoscaler_controller_reconciliation_duration_seconds",
    Stability::Beta,
    &["action", "error"],
    SECONDS,
    "The time(seconds) that the HPA controller takes to reconcile once. The label 'action' should be either 'scale_down', 'scale_up', or 'none'. Also, the label 'error' should be either 'spec', 'internal', or 'none'. Note that if both spec and internal errors happen during a reconciliation, the first one to occur is reported in `error` label.",
);
static COMPUTATIONS: Family = Family::counter(
    "horizontal_pod_autoscaler_controller_metric_computation_total",
    Stability::Beta,
    &["action", "error", "metric_type"],
    "Number of metric computations. The label 'action' should be either 'scale_down', 'scale_up', or 'none'. Also, the label 'error' should be either 'spec', 'internal', or 'none'. The label 'metric_type' corresponds to HPA.spec.metrics[*].type",
);
static COMPUTATION_DURATION: Family = Family::histogram(
    "horizontal_pod_autoscaler_controller_metric_computation_duration_seconds",
    Stability::Beta,
    &["action", "error", "metric_type"],
    SECONDS,
    "The time(seconds) that the HPA controller takes to calculate one metric. The label 'action' should be either 'scale_down', 'scale_up', or 'none'. The label 'error' should be either 'spec', 'internal', or 'none'. The label 'metric_type' corresponds to HPA.spec.metrics[*].type",
);
static AUTOSCALERS: Family = Family::gauge(
    "horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers",
    Stability::Alpha,
    &[],
    "Current number of controlled HPA objects.",
);
static DESIRED: Family = Family::gauge(
    "horizontal_pod_autoscaler_controller_desired_replicas",
    Stability::Alpha,
    &["namespace", "hpa_name"],
    "Current desired replica count for HPA objects.",
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
