//! The metrics of the controller.

use flyball_runtime::Metrics;
use flyball_runtime::metrics::{Counter, Family, Histogram, Stability};
use tokio::time::Instant;

const LATENCIES: &[f64] =
    &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];
static SYNCS: Family = Family::counter(
    "service_controller_loadbalancer_sync_total",
    Stability::Alpha,
    &[],
    "A metric counting the amount of times any load balancer has been configured, as an effect of service/node changes on the cluster",
);
static ERRORS: Family = Family::counter(
    "service_controller_nodesync_error_total",
    Stability::Alpha,
    &[],
    "A metric counting the amount of times any load balancer has been configured and errored, as an effect of node changes on the cluster",
);
static NODE_SYNC: Family = Family::histogram(
    "service_controller_nodesync_latency_seconds",
    Stability::Alpha,
    &[],
    LATENCIES,
    "A metric measuring the latency for nodesync which updates loadbalancer hosts on cluster node updates.",
);
static UPDATE: Family = Family::histogram(
    "service_controller_update_loadbalancer_host_latency_seconds",
    Stability::Alpha,
    &[],
    LATENCIES,
    "A metric measuring the latency for updating each load balancer hosts.",
);

#[derive(Clone)]
pub(super) struct ServiceMetrics {
    pub(super) syncs: Counter,
    pub(super) errors: Counter,
    pub(super) update: Histogram,
    node_sync: Histogram,
}

impl ServiceMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            syncs: metrics.counter(&SYNCS, &[]),
            errors: metrics.counter(&ERRORS, &[]),
            update: metrics.histogram(&UPDATE, &[]),
            node_sync: metrics.histogram(&NODE_SYNC, &[]),
        }
    }

    pub(super) fn node_sync(&self) -> NodeSync {
        NodeSync { began: Instant::now(), latency: self.node_sync.clone() }
    }
}

/// A change of nodes. It ends, and its latency is observed, when the last Service that holds it has dropped it.
pub(super) struct NodeSync {
    began: Instant,
    latency: Histogram,
}

impl Drop for NodeSync {
    fn drop(&mut self) {
        self.latency.observe(self.began.elapsed().as_secs_f64());
    }
}
