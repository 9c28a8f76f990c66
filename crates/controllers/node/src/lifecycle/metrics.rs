//! The metrics of the controller.

use std::collections::{BTreeMap, BTreeSet};

use flyball_runtime::metrics::{Family, Histogram, Metrics, Stability};
use parking_lot::Mutex;
use smol_str::SmolStr;

use super::zone::Tally;

static ZONE_HEALTH: Family = Family::gauge(
    "node_collector_zone_health",
    Stability::Alpha,
    &["zone"],
    "Gauge measuring percentage of healthy nodes per zone.",
);
static ZONE_SIZE: Family = Family::gauge(
    "node_collector_zone_size",
    Stability::Alpha,
    &["zone"],
    "Gauge measuring number of registered Nodes per zones.",
);
static UNHEALTHY: Family = Family::gauge(
    "node_collector_unhealthy_nodes_in_zone",
    Stability::Alpha,
    &["zone"],
    "Gauge measuring number of not Ready Nodes per zones.",
);
static EVICTIONS: Family = Family::counter(
    "node_collector_evictions_total",
    Stability::Stable,
    &["zone"],
    "Number of Node evictions that happened since current instance of NodeController started.",
);
static ONE_NODE: Family = Family::histogram(
    "node_collector_update_node_health_duration_seconds",
    Stability::Alpha,
    &[],
    &[0.001, 0.004, 0.016, 0.064, 0.256, 1.024, 4.096, 16.384],
    "Duration in seconds for NodeController to update the health of a single node.",
);
static ALL_NODES: Family = Family::histogram(
    "node_collector_update_all_nodes_health_duration_seconds",
    Stability::Alpha,
    &[],
    &[0.01, 0.04, 0.16, 0.64, 2.56, 10.24, 40.96, 163.84],
    "Duration in seconds for NodeController to update the health of all nodes.",
);

pub(super) struct NodeMetrics {
    metrics: Metrics,
    zones: Mutex<BTreeSet<SmolStr>>,
    pub(super) one_node: Histogram,
    pub(super) all_nodes: Histogram,
}

impl NodeMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            metrics: metrics.clone(),
            zones: Mutex::default(),
            one_node: metrics.histogram(&ONE_NODE, &[]),
            all_nodes: metrics.histogram(&ALL_NODES, &[]),
        }
    }

    /// Sets the gauges of all zones. A zone that has lost its nodes is shown as empty and healthy.
    pub(super) fn set_zones(&self, tallies: &BTreeMap<SmolStr, Tally>) {
        let mut known = self.zones.lock();
        for zone in known.iter().filter(|zone| !tallies.contains_key(*zone)) {
            set_zone(&self.metrics, zone, Tally::default());
        }
        for (zone, tally) in tallies {
            set_zone(&self.metrics, zone, *tally);
            if known.insert(zone.clone()) {
                // The counter exists before the first eviction.
                self.metrics.counter(&EVICTIONS, &[zone]);
            }
        }
        known.retain(|zone| tallies.contains_key(zone));
    }
}

fn set_zone(metrics: &Metrics, zone: &str, tally: Tally) {
    let size = tally.size() as f64;
    let health = if tally.size() == 0 { 100.0 } else { 100.0 * tally.ready as f64 / size };
    metrics.gauge(&ZONE_SIZE, &[zone]).set(size);
    metrics.gauge(&ZONE_HEALTH, &[zone]).set(health);
    metrics.gauge(&UNHEALTHY, &[zone]).set(tally.unready as f64);
}

pub(super) fn evicted(metrics: &Metrics, zone: &str) {
    metrics.counter(&EVICTIONS, &[zone]).inc();
}
