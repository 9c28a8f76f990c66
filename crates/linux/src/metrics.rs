//! Metrics of a gateway.

use flyball_runtime::Metrics;
use flyball_runtime::metrics::{Counter, Family, Gauge, Stability};

static ADDRESSES: Family = Family::gauge(
    "linux_cloud_addresses",
    Stability::Alpha,
    &[],
    "Addresses of load balancers that this machine holds.",
);
static MISSING: Family = Family::gauge(
    "linux_cloud_missing_addresses",
    Stability::Alpha,
    &[],
    "Addresses of load balancers that this machine should hold and cannot.",
);
static FAILURES: Family = Family::counter(
    "linux_cloud_failures_total",
    Stability::Alpha,
    &[],
    "How often the kernel of this machine could not be brought to what is wanted.",
);

pub(crate) struct GatewayMetrics {
    pub(crate) addresses: Gauge,
    pub(crate) missing: Gauge,
    pub(crate) failures: Counter,
}

impl GatewayMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self {
            addresses: metrics.gauge(&ADDRESSES, &[]),
            missing: metrics.gauge(&MISSING, &[]),
            failures: metrics.counter(&FAILURES, &[]),
        }
    }
}
