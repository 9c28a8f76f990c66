//! How long it takes to initialise a Node.

use flyball_api::{Node, Timestamp};
use flyball_runtime::Metrics;
use flyball_runtime::metrics::{Family, Histogram, Stability};

const DELAYS: &[f64] = &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];
static TAINT_REMOVAL: Family = Family::histogram(
    "node_controller_cloud_provider_taint_removal_delay_seconds",
    Stability::Alpha,
    &[],
    DELAYS,
    "Number of seconds after node creation when NodeController removed the cloud-provider taint of a single node.",
);
static INITIAL_SYNC: Family = Family::histogram(
    "node_controller_initial_node_sync_delay_seconds",
    Stability::Alpha,
    &[],
    DELAYS,
    "Number of seconds after node creation when NodeController finished the initial synchronization of a single node.",
);

pub(super) struct Delays {
    pub(super) taint_removal: Histogram,
    pub(super) initial_sync: Histogram,
}

impl Delays {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            taint_removal: metrics.histogram(&TAINT_REMOVAL, &[]),
            initial_sync: metrics.histogram(&INITIAL_SYNC, &[]),
        }
    }
}

/// Observes the time since the creation of a Node.
pub(super) fn observe(histogram: &Histogram, node: &Node, now: Timestamp) {
    if let Some(created) = node.metadata.creation_timestamp {
        histogram.observe(now.duration_since(created).as_secs_f64());
    }
}
