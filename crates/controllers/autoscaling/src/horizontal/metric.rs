//! One metric of a spec, by its type: what it is compared with, what to ask for it, what it and its failures are
//! called. Pure.

use flyball_api::horizontal_pod_autoscaler::{MetricIdentifier, MetricSpec, MetricTarget, ScaleTarget};
use flyball_common::go_text;

/// A metric with its aim, in thousandths where it is an amount.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Metric<'a> {
    /// A measure of one object.
    Object {
        metric: &'a MetricIdentifier,
        of: &'a ScaleTarget,
        aim: Shared,
    },
    /// A measure of each pod.
    Pods {
        metric: &'a MetricIdentifier,
        /// What it should be on average.
        aim: i64,
    },
    /// What pods use of a resource.
    Resource {
        name: &'a str,
        /// Only what this container uses.
        container: Option<&'a str>,
        /// How much it should be.
        aim: Used,
    },
    External {
        metric: &'a MetricIdentifier,
        aim: Shared,
    },
}

/// What a measure should be in which all pods have a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shared {
    Whole(i64),
    Each(i64),
}

/// How much pods should use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Used {
    /// So many percent of what they ask for.
    Percent(i32),
    Average(i64),
}

/// Why nothing follows from a metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// In one word, for the condition and the event.
    pub reason: &'static str,
    /// In a sentence, for the condition and the event.
    pub problem: String,
    /// The same, with where it happened in front.
    pub told: String,
    /// Whether the spec is at fault.
    pub is_spec: bool,
}

impl<'a> Metric<'a> {
    /// Reads a metric. The server admits none in which the section of its type is missing.
    pub fn read(spec: &'a MetricSpec) -> Result<Self, Unusable> {
        let unknown = || {
            let problem = format!("unknown metric source type {:?}", spec.type_);
            Unusable { reason: "InvalidMetricSourceType", told: problem.clone(), problem, is_spec: true }
        };
        let found = match spec.type_.as_str() {
            "Object" => spec.object.as_ref().map(|object| {
                let typed = |type_| Some(&object.target).filter(|target| target.type_ == type_);
                let aim = typed("Value").and_then(whole).or_else(|| typed("AverageValue").and_then(each));
                let problem =
                    "invalid object metric source: neither a value target nor an average value target was set";
                let (metric, of) = (&object.metric, &object.described_object);
                aim.map(|aim| Self::Object { metric, of, aim }).ok_or_else(|| Unusable {
                    reason: "FailedGetObjectMetric",
                    problem: problem.to_owned(),
                    told: format!("failed to get object metric value: {problem}"),
                    is_spec: false,
                })
            }),
            "Pods" => spec.pods.as_ref().map(|pods| {
                let aim = pods.target.average_value.map(|aim| aim.milli_value());
                let problem = "invalid pods metric source: no average value target was set";
                aim.map(|aim| Self::Pods { metric: &pods.metric, aim }).ok_or_else(|| Unusable {
                    reason: "FailedGetPodsMetric",
                    problem: problem.to_owned(),
                    told: format!("failed to get pods metric value: {problem}"),
                    is_spec: false,
                })
            }),
            "Resource" => spec.resource.as_ref().map(|found| resource(&found.name, None, &found.target)),
            "ContainerResource" => spec
                .container_resource
                .as_ref()
                .map(|found| resource(&found.name, Some(&found.container), &found.target)),
            "External" => spec.external.as_ref().map(|external| {
                let aim = each(&external.target).or_else(|| whole(&external.target));
                let metric = &external.metric;
                let problem =
                    "invalid external metric source: neither a value target nor an average value target was set";
                aim.map(|aim| Self::External { metric, aim }).ok_or_else(|| Unusable {
                    reason: "FailedGetExternalMetric",
                    problem: problem.to_owned(),
                    told: format!("failed to get {} external metric value: {problem}", metric.name),
                    is_spec: false,
                })
            }),
            _ => None,
        };
        found.unwrap_or_else(|| Err(unknown()))
    }

    /// What it is called in conditions and events.
    pub fn name(&self) -> String {
        match self {
            Self::Object { metric, of, aim: Shared::Whole(_) } => {
                format!("{} metric {}", of.kind, metric.name)
            }
            // Upstream: `computeStatusForObjectMetric` calls this one external, too.
            Self::Object { metric, .. } | Self::External { metric, .. } => {
                format!("external metric {}({})", metric.name, go_text::selector(metric.selector.as_ref()))
            }
            Self::Pods { metric, .. } => format!("pods metric {}", metric.name),
            Self::Resource { name, aim: Used::Average(_), .. } => format!("{name} resource"),
            Self::Resource { name, container: None, .. } => {
                format!("{name} resource utilization (percentage of request)")
            }
            Self::Resource { name, .. } => {
                format!("{name} container resource utilization (percentage of request)")
            }
        }
    }

    /// What a failure of the metrics API is called, before it is a failure of this metric.
    pub(super) fn unmeasured(&self, namespace: &str, error: &str) -> String {
        match self {
            // Upstream: `GetObjectMetricReplicas`: the error stands where the name of the object should end.
            Self::Object { metric, of, .. } => {
                format!(
                    "unable to get metric {}: {} on {namespace} {}/{error}",
                    metric.name, of.kind, of.name
                )
            }
            Self::Pods { metric, .. } => format!("unable to get metric {}: {error}", metric.name),
            Self::Resource { name, .. } => format!("unable to get metrics for resource {name}: {error}"),
            Self::External { metric, .. } => {
                let selector = go_text::selector(metric.selector.as_ref());
                format!("unable to get external metric {namespace}/{}/{selector}: {error}", metric.name)
            }
        }
    }

    /// Why nothing follows from it.
    pub(super) fn unusable(&self, error: String) -> Unusable {
        let (reason, problem, told) = match self {
            Self::Object { aim: Shared::Whole(_), .. } => {
                let told = format!("failed to get object metric value: {error}");
                ("FailedGetObjectMetric", error, told)
            }
            Self::Object { metric, .. } => {
                let name = &metric.name;
                let told =
                    format!("failed to get object metric value: failed to get {name} object metric: {error}");
                ("FailedGetObjectMetric", error, told)
            }
            Self::Pods { .. } => {
                let told = format!("failed to get pods metric value: {error}");
                ("FailedGetPodsMetric", error, told)
            }
            Self::Resource { name, container, aim } => {
                let what = if matches!(aim, Used::Percent(_)) { "utilization" } else { "usage" };
                return of_resource(name, *container, format!("failed to get {name} {what}: {error}"));
            }
            Self::External { metric, aim } => {
                let name = &metric.name;
                let inner = match aim {
                    Shared::Whole(_) => format!("failed to get external metric {name}: {error}"),
                    Shared::Each(_) => format!("failed to get {name} external metric: {error}"),
                };
                let told = format!("failed to get {name} external metric value: {inner}");
                ("FailedGetExternalMetric", error, told)
            }
        };
        Unusable { reason, problem, told, is_spec: false }
    }
}

fn whole(target: &MetricTarget) -> Option<Shared> {
    target.value.map(|value| Shared::Whole(value.milli_value()))
}

fn each(target: &MetricTarget) -> Option<Shared> {
    target.average_value.map(|value| Shared::Each(value.milli_value()))
}

fn resource<'a>(
    name: &'a str,
    container: Option<&'a str>,
    target: &MetricTarget,
) -> Result<Metric<'a>, Unusable> {
    let average = target.average_value.map(|value| Used::Average(value.milli_value()));
    let aim = average.or_else(|| target.average_utilization.map(Used::Percent));
    aim.map(|aim| Metric::Resource { name, container, aim }).ok_or_else(|| {
        let problem = "invalid resource metric source: neither an average utilization target nor an average value \
                       (usage) target was set";
        of_resource(name, container, problem.to_owned())
    })
}

fn of_resource(name: &str, container: Option<&str>, problem: String) -> Unusable {
    let (reason, told) = match container {
        Some(container) => (
            "FailedGetContainerResourceMetric",
            format!("failed to get {container} container metric value: {problem}"),
        ),
        None => ("FailedGetResourceMetric", format!("failed to get {name} resource metric value: {problem}")),
    };
    Unusable { reason, problem, told, is_spec: false }
}
