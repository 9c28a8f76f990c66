//! One metric of a spec, by its type: its target, its name and the messages about its failures. Pure.

use flyball_api::Selector;
use flyball_api::horizontal_pod_autoscaler::{MetricIdentifier, MetricSpec, MetricTarget, ScaleTarget};
use flyball_common::go_text;

/// A metric with its target, in thousandths where that is an amount.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Metric<'a> {
    /// A metric of one object.
    Object {
        metric: &'a MetricIdentifier,
        object: &'a ScaleTarget,
        target: TotalTarget,
    },
    /// A metric of each pod.
    Pods {
        metric: &'a MetricIdentifier,
        /// The average over all pods.
        target: i64,
    },
    /// The usage of a resource by pods.
    Resource {
        name: &'a str,
        /// Only the usage of this container.
        container: Option<&'a str>,
        target: ResourceTarget,
    },
    External {
        metric: &'a MetricIdentifier,
        target: TotalTarget,
    },
}

/// The target of a metric that has one value for all pods together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TotalTarget {
    Value(i64),
    /// The value divided by the number of replicas.
    AverageValue(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceTarget {
    /// In percent of the requests.
    Utilization(i32),
    AverageValue(i64),
}

/// A metric that calls for no number of replicas, because it could not be read or its spec is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidMetric {
    /// For the condition and the event.
    pub reason: &'static str,
    /// For the condition and the event.
    pub message: String,
    /// The message with what was attempted in front.
    pub error: String,
    pub is_spec_error: bool,
}

impl<'a> Metric<'a> {
    /// Reads a metric. The server admits none in which the section of its type is missing.
    pub fn read(spec: &'a MetricSpec) -> Result<Self, InvalidMetric> {
        let unknown = || {
            let problem = format!("unknown metric source type {:?}", spec.type_);
            InvalidMetric {
                reason: "InvalidMetricSourceType",
                error: problem.clone(),
                message: problem,
                is_spec_error: true,
            }
        };
        let found = match spec.type_.as_str() {
            "Object" => spec.object.as_ref().map(|object| {
                let typed = |type_| Some(&object.target).filter(|target| target.type_ == type_);
                let target = typed("Value").and_then(value).or_else(|| typed("AverageValue").and_then(average_value));
                let problem =
                    "invalid object metric source: neither a value target nor an average value target was set";
                let (metric, described) = (&object.metric, &object.described_object);
                target.map(|target| Self::Object { metric, object: described, target }).ok_or_else(|| InvalidMetric {
                    reason: "FailedGetObjectMetric",
                    message: problem.to_owned(),
                    error: format!("failed to get object metric value: {problem}"),
                    is_spec_error: false,
                })
            }),
            "Pods" => spec.pods.as_ref().map(|pods| {
                let target = pods.target.average_value.map(|target| target.milli_value());
                let problem = "invalid pods metric source: no average value target was set";
                target.map(|target| Self::Pods { metric: &pods.metric, target }).ok_or_else(|| InvalidMetric {
                    reason: "FailedGetPodsMetric",
                    message: problem.to_owned(),
                    error: format!("failed to get pods metric value: {problem}"),
                    is_spec_error: false,
                })
            }),
            "Resource" => spec.resource.as_ref().map(|found| resource(&found.name, None, &found.target)),
            "ContainerResource" => spec
                .container_resource
                .as_ref()
                .map(|found| resource(&found.name, Some(&found.container), &found.target)),
            "External" => spec.external.as_ref().map(|external| {
                let target = average_value(&external.target).or_else(|| value(&external.target));
                let metric = &external.metric;
                let problem =
                    "invalid external metric source: neither a value target nor an average value target was set";
                target.map(|target| Self::External { metric, target }).ok_or_else(|| InvalidMetric {
                    reason: "FailedGetExternalMetric",
                    message: problem.to_owned(),
                    error: format!("failed to get {} external metric value: {problem}", metric.name),
                    is_spec_error: false,
                })
            }),
            _ => None,
        };
        found.unwrap_or_else(|| Err(unknown()))?.with_valid_selector()
    }

    /// The metric, unless the selector of its series is invalid: the server does not validate it.
    fn with_valid_selector(self) -> Result<Self, InvalidMetric> {
        let metric = match self {
            Self::Object { metric, .. } | Self::Pods { metric, .. } | Self::External { metric, .. } => metric,
            Self::Resource { .. } => return Ok(self),
        };
        let Err(error) = Selector::from_object(metric.selector.as_ref()) else { return Ok(self) };
        let message = error.to_string();
        Err(match self {
            // Upstream: `computeReplicasForMetric`: before it looks at the target.
            Self::Object { .. } => InvalidMetric {
                reason: "FailedGetObjectMetric",
                error: format!("failed to get object metric value: {message}"),
                message,
                is_spec_error: false,
            },
            _ => self.invalid(message),
        })
    }

    /// Its name in conditions and events.
    pub fn name(&self) -> String {
        match self {
            Self::Object { metric, object, target: TotalTarget::Value(_) } => {
                format!("{} metric {}", object.kind, metric.name)
            }
            // Upstream: `computeStatusForObjectMetric` calls this one external, too.
            Self::Object { metric, .. } | Self::External { metric, .. } => {
                format!("external metric {}({})", metric.name, go_text::selector(metric.selector.as_ref()))
            }
            Self::Pods { metric, .. } => format!("pods metric {}", metric.name),
            Self::Resource { name, target: ResourceTarget::AverageValue(_), .. } => {
                format!("{name} resource")
            }
            Self::Resource { name, container: None, .. } => {
                format!("{name} resource utilization (percentage of request)")
            }
            Self::Resource { name, .. } => {
                format!("{name} container resource utilization (percentage of request)")
            }
        }
    }

    /// The error when the metrics API failed with `error`.
    pub(super) fn unmeasured(&self, namespace: &str, error: &str) -> String {
        match self {
            // Upstream: `GetObjectMetricReplicas`: the error is inserted before the end of the object's name.
            Self::Object { metric, object, .. } => {
                format!(
                    "unable to get metric {}: {} on {namespace} {}/{error}",
                    metric.name, object.kind, object.name
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

    pub(super) fn invalid(&self, message: String) -> InvalidMetric {
        let (reason, message, error) = match self {
            Self::Object { target: TotalTarget::Value(_), .. } => {
                let error = format!("failed to get object metric value: {message}");
                ("FailedGetObjectMetric", message, error)
            }
            Self::Object { metric, .. } => {
                let name = &metric.name;
                let error = format!(
                    "failed to get object metric value: failed to get {name} object metric: {message}"
                );
                ("FailedGetObjectMetric", message, error)
            }
            Self::Pods { .. } => {
                let error = format!("failed to get pods metric value: {message}");
                ("FailedGetPodsMetric", message, error)
            }
            Self::Resource { name, container, target } => {
                let what =
                    if matches!(target, ResourceTarget::Utilization(_)) { "utilization" } else { "usage" };
                return of_resource(name, *container, format!("failed to get {name} {what}: {message}"));
            }
            Self::External { metric, target } => {
                let name = &metric.name;
                let inner = match target {
                    TotalTarget::Value(_) => format!("failed to get external metric {name}: {message}"),
                    TotalTarget::AverageValue(_) => {
                        format!("failed to get {name} external metric: {message}")
                    }
                };
                let error = format!("failed to get {name} external metric value: {inner}");
                ("FailedGetExternalMetric", message, error)
            }
        };
        InvalidMetric { reason, message, error, is_spec_error: false }
    }
}

fn value(target: &MetricTarget) -> Option<TotalTarget> {
    target.value.map(|value| TotalTarget::Value(value.milli_value()))
}

fn average_value(target: &MetricTarget) -> Option<TotalTarget> {
    target.average_value.map(|value| TotalTarget::AverageValue(value.milli_value()))
}

fn resource<'a>(
    name: &'a str,
    container: Option<&'a str>,
    target: &MetricTarget,
) -> Result<Metric<'a>, InvalidMetric> {
    let average = target.average_value.map(|value| ResourceTarget::AverageValue(value.milli_value()));
    let target = average.or_else(|| target.average_utilization.map(ResourceTarget::Utilization));
    target.map(|target| Metric::Resource { name, container, target }).ok_or_else(|| {
        let message = "invalid resource metric source: neither an average utilization target nor an average value \
                       (usage) target was set";
        of_resource(name, container, message.to_owned())
    })
}

fn of_resource(name: &str, container: Option<&str>, message: String) -> InvalidMetric {
    let (reason, error) = match container {
        Some(container) => (
            "FailedGetContainerResourceMetric",
            format!("failed to get {container} container metric value: {message}"),
        ),
        None => ("FailedGetResourceMetric", format!("failed to get {name} resource metric value: {message}")),
    };
    InvalidMetric { reason, message, error, is_spec_error: false }
}
