//! From the answer of a metrics API to what one metric proposes. Pure.

use flyball_api::Quantity;
use flyball_api::horizontal_pod_autoscaler::{
    ContainerResourceMetricStatus, ExternalMetricStatus, MetricStatus, MetricValue, ObjectMetricStatus,
    PodsMetricStatus, ResourceMetricStatus,
};
use flyball_api::quantity::Format;

use super::census::{Scope, WarmUp, requests};
use super::metric::{Metric, Shared, Unusable, Used};
use super::replicas::{Samples, by_average, by_share, by_utilization, by_value};

/// What a metrics API answered, in thousandths.
#[derive(Debug, Clone, PartialEq)]
pub enum Measured {
    Samples(Samples),
    /// Of one object, or of all series of a measure together.
    Total(i64),
}

/// What follows from one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    pub replicas: i32,
    /// What the metric is called in conditions and events.
    pub name: String,
    /// The metric as it is shown.
    pub status: MetricStatus,
}

/// What metrics are judged by.
#[derive(Debug, Clone, Copy)]
pub struct Bench<'a> {
    /// Where the autoscaler and its pods are.
    pub namespace: &'a str,
    /// The pods, and how many there should be.
    pub scope: Scope<'a>,
    /// How many replicas the workload says it has.
    pub present: i32,
    /// What pods are given whose CPU is measured.
    pub warm_up: WarmUp,
    /// Whether what is asked for a pod as a whole counts.
    pub pod_level: bool,
}

/// What follows from the answer to the question about a metric.
pub fn propose(
    metric: &Metric<'_>,
    answer: Result<Measured, String>,
    bench: &Bench<'_>,
) -> Result<Proposal, Unusable> {
    let measured = answer.map_err(|error| metric.unmeasured(bench.namespace, &error));
    let (replicas, current) = measured
        .and_then(|measured| weigh(metric, measured, bench))
        .map_err(|error| metric.unusable(error))?;
    Ok(Proposal { replicas, name: metric.name(), status: status(metric, current) })
}

fn weigh(metric: &Metric<'_>, measured: Measured, bench: &Bench<'_>) -> Result<(i32, MetricValue), String> {
    let scope = &bench.scope;
    match (*metric, measured) {
        (Metric::Resource { name, container, aim }, Measured::Samples(samples)) => {
            let scope = Scope { warm_up: (name == "cpu").then_some(bench.warm_up), ..*scope };
            match aim {
                Used::Percent(target) => {
                    let requests = || requests(scope.pods, name, container, bench.pod_level);
                    let (replicas, used) = by_utilization(&scope, samples, requests, target)?;
                    let current = MetricValue {
                        average_utilization: Some(used.percent),
                        average_value: Some(amount(name, used.average)),
                        value: None,
                    };
                    Ok((replicas, current))
                }
                Used::Average(target) => {
                    let (replicas, average) = by_average(&scope, samples, target)?;
                    let average_value = Some(amount(name, average));
                    Ok((replicas, MetricValue { average_value, ..MetricValue::default() }))
                }
            }
        }
        (Metric::Pods { aim, .. }, Measured::Samples(samples)) => {
            by_average(scope, samples, aim).map(|(replicas, average)| (replicas, each(average)))
        }
        (Metric::Object { aim, .. } | Metric::External { aim, .. }, Measured::Total(usage)) => match aim {
            Shared::Whole(target) => {
                by_value(scope, usage, target).map(|(replicas, usage)| (replicas, whole(usage)))
            }
            Shared::Each(target) => {
                let (replicas, share) = by_share(scope.tolerances, bench.present, usage, target);
                Ok((replicas, each(share)))
            }
        },
        (_, measured) => Err(format!("{measured:?} is no answer for a {}", metric.name())),
    }
}

fn status(metric: &Metric<'_>, current: MetricValue) -> MetricStatus {
    let mut status = MetricStatus::default();
    status.type_ = match *metric {
        Metric::Object { metric, of, .. } => {
            let (metric, described_object) = (metric.clone(), of.clone());
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

/// An amount of a resource as a metrics server prints it.
fn amount(resource: &str, milli: i64) -> Quantity {
    let format = if resource == "memory" { Format::BinarySi } else { Format::DecimalSi };
    Quantity::from_milli(milli).with_format(format)
}

fn each(milli: i64) -> MetricValue {
    MetricValue { average_value: Some(Quantity::from_milli(milli)), ..MetricValue::default() }
}

fn whole(milli: i64) -> MetricValue {
    MetricValue { value: Some(Quantity::from_milli(milli)), ..MetricValue::default() }
}
