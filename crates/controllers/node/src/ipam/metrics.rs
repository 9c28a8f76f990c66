//! The pool under a lock, with its metrics.

use flyball_runtime::Metrics;
use flyball_runtime::metrics::{Counter, Family, Gauge, Histogram, Stability};
use parking_lot::Mutex;

use super::blocks::Blocks;
use super::pool::Pool;
use super::settings::Settings;

const LABELS: &[&str] = &["clusterCIDR"];

static ALLOCATIONS: Family = Family::counter(
    "node_ipam_controller_cidrset_cidrs_allocations_total",
    Stability::Alpha,
    LABELS,
    "Counter measuring total number of CIDR allocations.",
);
static RELEASES: Family = Family::counter(
    "node_ipam_controller_cidrset_cidrs_releases_total",
    Stability::Alpha,
    LABELS,
    "Counter measuring total number of CIDR releases.",
);
// Upstream's spelling.
static TOTAL: Family = Family::gauge(
    "node_ipam_controller_cirdset_max_cidrs",
    Stability::Alpha,
    LABELS,
    "Maximum number of CIDRs that can be allocated.",
);
static USAGE: Family = Family::gauge(
    "node_ipam_controller_cidrset_usage_cidrs",
    Stability::Alpha,
    LABELS,
    "Gauge measuring percentage of allocated CIDRs.",
);
static TRIES: Family = Family::histogram(
    "node_ipam_controller_cidrset_allocation_tries_per_request",
    Stability::Alpha,
    LABELS,
    &[1.0, 5.0, 25.0, 125.0, 625.0],
    "Number of endpoints added on each Service sync",
);

/// The pool, for one thread at a time. The metrics show every change of it.
pub(super) struct SharedPool {
    state: Mutex<(Pool, Vec<CidrMetrics>)>,
}

struct CidrMetrics {
    allocations: Counter,
    releases: Counter,
    usage: Gauge,
    tries: Histogram,
    shown: (u64, u64),
}

impl SharedPool {
    pub(super) fn new(settings: &Settings, metrics: &Metrics) -> Self {
        let pool = Pool::new(settings);
        let metrics = pool.clusters().iter().map(|blocks| CidrMetrics::new(blocks, metrics)).collect();
        let shared = Self { state: Mutex::new((pool, metrics)) };
        shared.with(|_| ());
        shared
    }

    /// Reads or changes the pool.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut Pool) -> R) -> R {
        let (pool, metrics) = &mut *self.state.lock();
        let result = work(pool);
        let searches = pool.take_searches();
        for ((blocks, searches), metrics) in pool.clusters().iter().zip(searches).zip(metrics) {
            metrics.show(blocks, &searches);
        }
        result
    }
}

impl CidrMetrics {
    fn new(blocks: &Blocks, metrics: &Metrics) -> Self {
        let cluster = blocks.cluster().to_string();
        let labels = &[cluster.as_str()];
        metrics.gauge(&TOTAL, labels).set(blocks.total() as f64);
        Self {
            allocations: metrics.counter(&ALLOCATIONS, labels),
            releases: metrics.counter(&RELEASES, labels),
            usage: metrics.gauge(&USAGE, labels),
            tries: metrics.histogram(&TRIES, labels),
            shown: (0, 0),
        }
    }

    fn show(&mut self, blocks: &Blocks, searches: &[u64]) {
        searches.iter().for_each(|tries| self.tries.observe(*tries as f64));
        let (allocations, releases) = blocks.turnover();
        self.allocations.add(allocations - self.shown.0);
        self.releases.add(releases - self.shown.1);
        self.shown = (allocations, releases);
        self.usage.set(blocks.used() as f64 / blocks.total() as f64);
    }
}
