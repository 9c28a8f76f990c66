//! The number of replicas that one metric proposes, from the answer of its metrics API. Pure.

use flyball_api::Quantity;
use flyball_api::horizontal_pod_autoscaler::{
    ContainerResourceMetricStatus, ExternalMetricStatus, MetricStatus, MetricValue, ObjectMetricStatus,
    PodsMetricStatus, ResourceMetricStatus,
};
use flyball_api::quantity::Format;

use super::metric::{InvalidMetric, Metric, ResourceTarget, TotalTarget};
use super::pod_groups::{WarmUp, Workload, requests};
use super::replicas::{Count, Samples, by_average, by_share, by_utilization, by_value};

/// The answer of a metrics API, in thousandths.
#[derive(Debug, Clone, PartialEq)]
pub enum Measured {
    Samples(Samples),
    /// The value of one object, or the sum of all series of an external metric.
    Total(i64),
}

/// What one metric proposes.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    pub count: Count,
    /// The name of the metric in conditions and events.
    pub name: String,
    /// The metric as the status shows it.
    pub status: MetricStatus,
}

/// What a metric is compared with.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    pub namespace: &'a str,
    pub workload: Workload<'a>,
    /// `status.replicas` of the scale.
    pub status_replicas: i32,
    /// For CPU metrics.
    pub warm_up: WarmUp,
    /// Whether resource requests of whole pods count.
    pub pod_level: bool,
}

/// What a metric proposes, given the answer of its metrics API.
pub fn propose(
    metric: &Metric<'_>,
    answer: Result<Measured, String>,
    inputs: &Inputs<'_>,
) -> Result<Proposal, InvalidMetric> {
    let measured = answer.map_err(|error| metric.unmeasured(inputs.namespace, &error));
    let (count, current) = measured
        .and_then(|measured| evaluate(metric, measured, inputs))
        .map_err(|error| metric.invalid(error))?;
    Ok(Proposal { count, name: metric.name(), status: status(metric, current) })
}

fn evaluate(
    metric: &Metric<'_>,
    measured: Measured,
    inputs: &Inputs<'_>,
) -> Result<(Count, MetricValue), String> {
    let workload = &inputs.workload;
    match (*metric, measured) {
        (Metric::Resource { name, container, target }, Measured::Samples(samples)) => {
            let workload = Workload { warm_up: (name == "cpu").then_some(inputs.warm_up), ..*workload };
            match target {
                ResourceTarget::Utilization(target) => {
                    let requests = || requests(workload.pods, name, container, inputs.pod_level);
                    let (count, used) = by_utilization(&workload, samples, requests, target)?;
                    let current = MetricValue {
                        average_utilization: Some(used.percent),
                        average_value: Some(amount(name, used.average)),
                        value: None,
                    };
                    Ok((count, current))
                }
                ResourceTarget::AverageValue(target) => {
                    let (count, average) = by_average(&workload, samples, target)?;
                    let average_value = Some(amount(name, average));
                    Ok((count, MetricValue { average_value, ..MetricValue::default() }))
                }
            }
        }
        (Metric::Pods { target, .. }, Measured::Samples(samples)) => {
            by_average(workload, samples, target).map(|(count, average)| (count, average_value(average)))
        }
        (Metric::Object { target, .. } | Metric::External { target, .. }, Measured::Total(usage)) => {
            match target {
                TotalTarget::Value(target) => {
                    by_value(workload, usage, target).map(|(count, usage)| (count, value(usage)))
                }
                TotalTarget::AverageValue(target) => {
                    let (count, share) = by_share(workload.tolerances, inputs.status_replicas, usage, target);
                    Ok((count, average_value(share)))
                }
            }
        }
        (_, measured) => Err(format!("{measured:?} is no answer for a {}", metric.name())),
    }
}

fn status(metric: &Metric<'_>, current: MetricValue) -> MetricStatus {
    let mut status = MetricStatus::default();
    status.type_ = match *metric {
        Metric::Object { metric, object, .. } => {
            let (metric, described_object) = (metric.clone(), object.clone());
            status.object = Some(ObjectMetricStatus { metric, current, described_object });
            "Object"
        }
        Metric::Pods { metric, .. } => {
            status.pods = Some(PodsMetricStatus { metric: metric.clone(), current });
            "Pods"
        }
        Metric::Resource { name, container: None, .. } => {
            status.resource = Some(ResourceMetricStatus { name: name.into(), current });
            "Resource"
        }
        Metric::Resource { name, container: Some(container), .. } => {
            let (name, container) = (name.into(), container.into());
            status.container_resource = Some(ContainerResourceMetricStatus { name, current, container });
            "ContainerResource"
        }
        Metric::External { metric, .. } => {
            status.external = Some(ExternalMetricStatus { metric: metric.clone(), current });
            "External"
        }
    }
    .into();
    status
}

/// An amount of a resource in the format that metrics servers use.
fn amount(resource: &str, milli: i64) -> Quantity {
    let format = if resource == "memory" { Format::BinarySi } else { Format::DecimalSi };
    Quantity::from_milli(milli).with_format(format)
}

fn average_value(milli: i64) -> MetricValue {
    MetricValue { average_value: Some(Quantity::from_milli(milli)), ..MetricValue::default() }
}

fn value(milli: i64) -> MetricValue {
    MetricValue { value: Some(Quantity::from_milli(milli)), ..MetricValue::default() }
}
