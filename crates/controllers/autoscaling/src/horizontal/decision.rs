//! Decides how many replicas a workload should have, and which limits apply. Pure; [`super::plan`] turns the decision
//! into writes.
//!
//! [`next_step`] decides from the current number of replicas whether metrics have to be read; [`evaluate`] combines the
//! proposals of all metrics into one recommendation; [`rescale`] limits the recommendation by the behavior and the
//! bounds of the spec.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::horizontal_pod_autoscaler::{HorizontalPodAutoscaler, MetricStatus, ScalingRules};
use flyball_api::pod::Pod;
use flyball_api::{Key, Timestamp, condition};
use flyball_runtime::Waiting;
use jiff::SignedDuration;

use super::history::History;
use super::metric::{InvalidMetric, Metric};
use super::monitor::{Action, Fault};
use super::normalize::{Limits, Normalized};
use super::pod_groups::{WarmUp, Workload};
use super::proposal::{Inputs, Measured, Proposal, propose};
use super::replicas::Tolerances;
use super::scale_client::Scale;
use super::status::{self, Report};
use super::waiting::{disabled, next_sync, waiting};

/// The settings of all autoscalers, from flags and feature gates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The time between two syncs of an autoscaler.
    pub period: Duration,
    /// The tolerance of autoscalers that do not set one.
    pub tolerance: f64,
    /// The stabilization window for scaling down, for autoscalers that do not set one.
    pub downscale_window: SignedDuration,
    pub warm_up: WarmUp,
    /// Whether autoscalers may set a tolerance.
    pub own_tolerance: bool,
    /// Whether autoscalers may scale to zero and back.
    pub scale_to_zero: bool,
    /// Whether pod-level resource requests are used.
    pub pod_level: bool,
}

impl Settings {
    pub fn tolerances(&self, hpa: &HorizontalPodAutoscaler) -> Tolerances {
        let behavior = hpa.spec.behavior.as_ref().filter(|_| self.own_tolerance);
        let own = |rules: Option<&ScalingRules>| {
            rules.and_then(|rules| rules.tolerance).map_or(self.tolerance, |own| own.to_f64())
        };
        Tolerances {
            down: own(behavior.and_then(|behavior| behavior.scale_down.as_ref())),
            up: own(behavior.and_then(|behavior| behavior.scale_up.as_ref())),
        }
    }
}

/// Everything that the decision depends on.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub hpa: &'a HorizontalPodAutoscaler,
    pub observed: &'a Observations,
    /// What is remembered from earlier syncs.
    pub history: &'a History,
    pub settings: &'a Settings,
    pub now: Timestamp,
}

impl View<'_> {
    pub(super) fn scaling(&self, current: i32) -> Scaling<'_> {
        Scaling::new(self.hpa, current, self.history, self.settings, self.now)
    }
}

/// What was read from the server for one sync.
#[derive(Debug)]
pub struct Observations {
    pub scale: Result<Scale, ScaleError>,
    pub metrics: Metrics,
}

/// Why the scale of the workload cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaleError {
    /// For the condition and the event.
    pub message: String,
    /// The message, preceded by what was attempted.
    pub error: String,
    pub is_spec_error: bool,
}

impl ScaleError {
    /// The API version of the target cannot be parsed.
    pub fn of_target(message: String) -> Self {
        Self::new("invalid API version in scale target reference", message, true)
    }

    /// The resource of the target cannot be found.
    pub fn of_kind(message: String) -> Self {
        Self::new("unable to determine resource for scale target reference", message, false)
    }

    /// The scale of the target cannot be read.
    pub fn of_scale(hpa: &HorizontalPodAutoscaler, message: String) -> Self {
        Self::new(&format!("failed to query scale subresource for {}", reference(hpa)), message, false)
    }

    fn new(doing: &str, message: String, is_spec_error: bool) -> Self {
        Self { error: format!("{doing}: {message}"), message, is_spec_error }
    }
}

/// What was read of the metrics.
#[derive(Debug)]
pub enum Metrics {
    /// They are not needed for the decision.
    NotRead,
    /// The pods of the workload cannot be determined.
    NoPods(SelectorError),
    Read {
        pods: Vec<Arc<Pod>>,
        /// One for each metric of the spec. Invalid metrics are not read.
        answers: Vec<Result<Measured, String>>,
    },
}

/// Why the selector of the scale cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SelectorError {
    Missing,
    Invalid(String),
    /// Another autoscaler selects some of the same pods.
    Ambiguous(String),
}

/// An autoscaler and the current `spec.replicas` of its workload.
#[derive(Debug, Clone, Copy)]
pub struct Scaling<'a> {
    pub hpa: &'a HorizontalPodAutoscaler,
    /// `spec.replicas` of the scale.
    pub current: i32,
    /// Whether this autoscaler, not a user, scaled the workload to zero or tried to: see [`History`].
    pub scaled_to_zero: bool,
    /// Whether this autoscaler has scaled up from zero while its status still says that it has scaled to zero.
    pub left_zero: bool,
    pub settings: &'a Settings,
    pub now: Timestamp,
}

impl<'a> Scaling<'a> {
    pub(super) fn new(
        hpa: &'a HorizontalPodAutoscaler,
        current: i32,
        history: &History,
        settings: &'a Settings,
        now: Timestamp,
    ) -> Self {
        let scaled_to_zero = history.scaled_to_zero.as_ref() == Some(&hpa.metadata.uid);
        let left_zero = history.left_zero.as_ref() == Some(&hpa.metadata.uid);
        Self { hpa, current, scaled_to_zero, left_zero, settings, now }
    }

    fn min(&self) -> i32 {
        self.hpa.spec.min_replicas.unwrap_or(1)
    }

    fn max(&self) -> i32 {
        self.hpa.spec.max_replicas
    }

    /// Whether there is a metric that has a value while there are no pods.
    fn has_metric_without_pods(&self) -> bool {
        let needs_no_pods = |type_: &str| type_ == "Object" || type_ == "External";
        self.hpa.spec.metrics.iter().any(|metric| needs_no_pods(&metric.type_))
    }

    /// Whether setting this number of replicas is a scale to zero that the autoscaler can undo.
    pub(super) fn is_to_zero(&self, replicas: i32) -> bool {
        self.current > 0 && replicas == 0 && self.min() == 0 && self.has_metric_without_pods()
    }

    /// Whether the autoscaler, and not a user, has scaled the workload to zero.
    fn has_scaled_to_zero(&self) -> bool {
        self.settings.scale_to_zero && (self.scaled_to_zero || self.says_scaled_to_zero() && !self.left_zero)
    }

    pub(super) fn says_scaled_to_zero(&self) -> bool {
        condition::is_true(&self.hpa.status.conditions, status::SCALED_TO_ZERO)
    }
}

/// What follows from the current number of replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// A user has scaled the workload to zero, which disables the autoscaler.
    Disabled,
    /// The number of replicas is out of bounds: scale to this bound without reading metrics. With the reason.
    ScaleTo(i32, &'static str),
    ReadMetrics,
}

const BELOW: &str = "Current number of replicas below Spec.MinReplicas";
const ABOVE: &str = "Current number of replicas above Spec.MaxReplicas";

/// Whether metrics have to be read, or the number of replicas alone decides.
pub fn next_step(scaling: &Scaling<'_>) -> NextStep {
    let (current, min, max) = (scaling.current, scaling.min(), scaling.max());
    if current == 0 {
        let may_return = scaling.has_scaled_to_zero() && (min != 0 || scaling.has_metric_without_pods());
        if may_return { NextStep::ReadMetrics } else { NextStep::Disabled }
    } else if current > max {
        NextStep::ScaleTo(max, ABOVE)
    } else if current < min {
        NextStep::ScaleTo(min, BELOW)
    } else {
        NextStep::ReadMetrics
    }
}

/// What is decided in one sync.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The current number of replicas, if the scale could be read.
    pub current: Option<i32>,
    pub rescale: Option<Rescale>,
    /// The conditions and the events, as far as they do not depend on whether rescaling succeeds.
    pub report: Report,
    /// The history while the rescale is made, whose outcome may stay unknown: a rescale is added to it only if its write
    /// succeeds, and a request for zero replicas is removed if it fails.
    pub history: History,
    /// The metrics as the status shows them, blank where a metric is invalid; `None` if none were read.
    pub metrics: Option<Vec<MetricStatus>>,
    /// The result of each metric, for the controller's own metrics.
    pub(super) computed: Vec<(Action, Fault)>,
    /// Whether the number of replicas that the metrics call for could not be determined.
    pub is_unknown: bool,
    /// Why the sync has failed.
    pub error: Option<String>,
    pub is_spec_error: bool,
    pub waiting: Vec<Waiting>,
}

/// A number of replicas to set, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rescale {
    pub replicas: i32,
    /// As the event states it.
    pub reason: String,
}

pub fn decide(view: &View<'_>) -> Decision {
    let mut decision = Decision {
        current: None,
        rescale: None,
        report: Report::new(view.hpa, view.now),
        history: view.history.clone(),
        metrics: None,
        computed: vec![],
        is_unknown: false,
        error: None,
        is_spec_error: false,
        waiting: vec![],
    };
    match &view.observed.scale {
        Ok(scale) => decision.replicas(view, scale),
        Err(ScaleError { message, error, is_spec_error }) => {
            decision.report.scale_unknown(message);
            decision.error = Some(error.clone());
            decision.is_spec_error = *is_spec_error;
            decision.waiting = vec![next_sync(view, "when the scale is read again")];
        }
    }
    decision
}

impl Decision {
    fn replicas(&mut self, view: &View<'_>, scale: &Scale) {
        let scaling = view.scaling(scale.replicas);
        self.current = Some(scaling.current);
        self.report.scale_known();
        self.history.begin(scaling.current, view.now);
        let scaled_to_zero = scaling.scaled_to_zero && scaling.current == 0 && !scaling.says_scaled_to_zero();
        self.history.scaled_to_zero = scaled_to_zero.then(|| view.hpa.metadata.uid.clone());
        let left_zero = scaling.left_zero && scaling.says_scaled_to_zero();
        self.history.left_zero = left_zero.then(|| view.hpa.metadata.uid.clone());
        if (scaled_to_zero || left_zero) && view.settings.scale_to_zero {
            self.report.scaled_to_zero(Some(scaled_to_zero));
        }
        match next_step(&scaling) {
            NextStep::Disabled => {
                self.report.disabled(view.settings.scale_to_zero);
                self.waiting = vec![disabled(view.hpa)];
            }
            NextStep::ScaleTo(replicas, reason) => {
                self.rescale = Some(Rescale { replicas, reason: reason.to_owned() });
                self.waiting = vec![next_sync(view, "when the metrics are read")];
            }
            NextStep::ReadMetrics => self.follow_metrics(view, &scaling, scale),
        }
    }

    fn follow_metrics(&mut self, view: &View<'_>, scaling: &Scaling<'_>, scale: &Scale) {
        let evaluated = match &view.observed.metrics {
            Metrics::NotRead => Evaluated::default(),
            Metrics::NoPods(error) => {
                Evaluated { error: Some(self.report.selector(error)), ..Evaluated::default() }
            }
            Metrics::Read { pods, answers } => {
                let proposals = proposals(scaling, scale, pods, answers);
                self.computed = proposals.iter().map(|proposal| computed(view.hpa, proposal)).collect();
                evaluate(scaling, proposals, &mut self.report)
            }
        };
        self.metrics = evaluated.statuses;
        let Some(recommendation) = evaluated.recommended else {
            let problem = evaluated.error.unwrap_or_else(|| "there is no metric".to_owned());
            self.report.warn("FailedComputeMetricsReplicas", problem.clone());
            let doing = "failed to compute desired number of replicas based on listed metrics for";
            self.error = Some(format!("{doing} {}: {problem}", reference(view.hpa)));
            self.is_unknown = true;
            self.waiting = vec![next_sync(view, "when the metrics are read again")];
            return;
        };
        self.error = evaluated.error;
        let (rescale, normalized) = rescale(scaling, &recommendation, &mut self.history, &mut self.report);
        if rescale.as_ref().is_some_and(|rescale| scaling.is_to_zero(rescale.replicas)) {
            self.history.scaled_to_zero = Some(view.hpa.metadata.uid.clone());
            self.history.left_zero = None;
        }
        self.rescale = rescale;
        self.waiting = waiting(view, &recommendation, &normalized);
    }
}

fn proposals(
    scaling: &Scaling<'_>,
    scale: &Scale,
    pods: &[Arc<Pod>],
    answers: &[Result<Measured, String>],
) -> Vec<Result<Proposal, InvalidMetric>> {
    let Scaling { hpa, settings, now, .. } = *scaling;
    let tolerances = settings.tolerances(hpa);
    let workload = Workload { pods, replicas: scale.replicas, tolerances, warm_up: None, now };
    let Settings { warm_up, pod_level, .. } = *settings;
    let namespace = &hpa.metadata.namespace;
    let inputs = Inputs { namespace, workload, status_replicas: scale.status_replicas, warm_up, pod_level };
    let metrics = hpa.spec.metrics.iter().zip(answers);
    metrics.map(|(spec, answer)| propose(&Metric::read(spec)?, answer.clone(), &inputs)).collect()
}

/// For the controller's own metrics: what a metric calls for, compared with the replicas that the status shows.
fn computed(hpa: &HorizontalPodAutoscaler, proposal: &Result<Proposal, InvalidMetric>) -> (Action, Fault) {
    match proposal {
        Ok(proposal) => (Action::of(hpa.status.current_replicas, proposal.count.replicas), Fault::None),
        Err(InvalidMetric { is_spec_error: true, .. }) => (Action::None, Fault::Spec),
        Err(_) => (Action::None, Fault::Internal),
    }
}

/// The combined result of all metrics of an autoscaler.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evaluated {
    /// The highest proposal; `None` if there is none, or if it would scale down while other metrics are invalid.
    pub recommended: Option<Recommendation>,
    /// Each metric as the status shows it, blank where it is invalid; `None` if none were read.
    pub statuses: Option<Vec<MetricStatus>>,
    /// The error of the invalid metrics.
    pub error: Option<String>,
}

/// The number of replicas that the metrics recommend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recommendation {
    pub replicas: i32,
    /// The metric that recommends it.
    pub metric: String,
    /// Why that metric leaves the number of replicas as it is.
    pub unchanged: Option<&'static str>,
}

/// Combines the proposals of all metrics into one recommendation. If any metric is invalid, it never scales down.
pub fn evaluate(
    scaling: &Scaling<'_>,
    proposals: Vec<Result<Proposal, InvalidMetric>>,
    report: &mut Report,
) -> Evaluated {
    let count = proposals.len();
    let mut statuses = vec![];
    let mut best: Option<Recommendation> = None;
    let mut invalid: Vec<InvalidMetric> = vec![];
    for proposal in proposals {
        match proposal {
            Ok(Proposal { count, name, status }) => {
                statuses.push(status);
                // As in upstream, any later proposal replaces one of zero replicas, even a negative one.
                if best.as_ref().is_none_or(|best| best.replicas == 0 || count.replicas > best.replicas) {
                    let unchanged = count.unchanged.map(|unchanged| unchanged.words());
                    best = Some(Recommendation { replicas: count.replicas, metric: name, unchanged });
                }
            }
            Err(metric) => {
                statuses.push(MetricStatus::default());
                report.warn(metric.reason, metric.message.clone());
                invalid.push(metric);
            }
        }
    }
    let error = invalid.first().map(|first| {
        let bad = invalid.len();
        format!("invalid metrics ({bad} invalid out of {count}), first error is: {}", first.error)
    });
    let recommended = match (best, invalid.first()) {
        (Some(best), first) if first.is_none() || best.replicas >= scaling.current => {
            report.valid_metric(&best.metric);
            Some(best)
        }
        (_, Some(first)) => {
            report.invalid_metrics(first.reason, &first.message);
            None
        }
        (_, None) => None,
    };
    Evaluated { recommended, statuses: Some(statuses), error }
}

/// The number of replicas to set, if it differs from the current one, and how the recommendation was limited.
pub fn rescale(
    scaling: &Scaling<'_>,
    recommendation: &Recommendation,
    history: &mut History,
    report: &mut Report,
) -> (Option<Rescale>, Normalized) {
    let Scaling { hpa, current, settings, now, .. } = *scaling;
    // As in upstream, a negative recommendation counts as zero.
    let recommended = recommendation.replicas.max(0);
    let metric = if recommended > 0 { recommendation.metric.as_str() } else { "" };
    let mut reason = match recommended.cmp(&current) {
        std::cmp::Ordering::Greater => format!("{metric} above target"),
        std::cmp::Ordering::Less => "All metrics below target".to_owned(),
        std::cmp::Ordering::Equal => String::new(),
    };
    let limits = Limits {
        min: scaling.min(),
        max: scaling.max(),
        behavior: hpa.spec.behavior.as_ref(),
        downscale_window: settings.downscale_window,
        now,
    };
    let normalized = limits.normalize(current, recommended, history);
    report.normalized(&normalized);
    let mut replicas = normalized.replicas;
    if current == 0 && scaling.min() != 0 && scaling.has_scaled_to_zero() && replicas < scaling.min() {
        replicas = scaling.min();
        if reason.is_empty() {
            reason = BELOW.to_owned();
        }
    }
    ((replicas != current).then_some(Rescale { replicas, reason }), normalized)
}

/// The key of the workload that is scaled.
pub(super) fn target_key(hpa: &HorizontalPodAutoscaler) -> Key {
    Key::new(hpa.metadata.namespace.as_str(), hpa.spec.scale_target_ref.name.as_str())
}

/// The workload as `kind/namespace/name`, for error messages.
fn reference(hpa: &HorizontalPodAutoscaler) -> String {
    let target = &hpa.spec.scale_target_ref;
    format!("{}/{}/{}", target.kind, hpa.metadata.namespace, target.name)
}
