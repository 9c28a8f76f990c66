//! The books under a lock, with the numbers that are kept about them.

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
    "Blocks that came to be held.",
);
static RELEASES: Family = Family::counter(
    "node_ipam_controller_cidrset_cidrs_releases_total",
    Stability::Alpha,
    LABELS,
    "Blocks that became free.",
);
// Upstream's spelling.
static TOTAL: Family =
    Family::gauge("node_ipam_controller_cirdset_max_cidrs", Stability::Alpha, LABELS, "Blocks in the range.");
static USAGE: Family = Family::gauge(
    "node_ipam_controller_cidrset_usage_cidrs",
    Stability::Alpha,
    LABELS,
    "Part of the blocks that are held.",
);
static TRIES: Family = Family::histogram(
    "node_ipam_controller_cidrset_allocation_tries_per_request",
    Stability::Alpha,
    LABELS,
    &[1.0, 5.0, 25.0, 125.0, 625.0],
    "Held blocks that were passed over to find a free one.",
);

/// The books, one reader or writer at a time. Whatever is done to them shows in the numbers.
pub(super) struct Books {
    state: Mutex<(Pool, Vec<Numbers>)>,
}

struct Numbers {
    allocations: Counter,
    releases: Counter,
    usage: Gauge,
    tries: Histogram,
    shown: (u64, u64),
}

impl Books {
    pub(super) fn new(settings: &Settings, metrics: &Metrics) -> Self {
        let pool = Pool::new(settings);
        let numbers = pool.clusters().iter().map(|blocks| Numbers::new(blocks, metrics)).collect();
        let books = Self { state: Mutex::new((pool, numbers)) };
        books.with(|_| ());
        books
    }

    /// Looks into the books, or writes in them.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut Pool) -> R) -> R {
        let (pool, numbers) = &mut *self.state.lock();
        let result = work(pool);
        pool.clusters().iter().zip(numbers).for_each(|(blocks, numbers)| numbers.show(blocks));
        result
    }

    /// Where the search for a free block in a range is counted.
    pub(super) fn searched(&self) -> impl FnMut(&Blocks, u64) + use<> {
        let state = self.state.lock();
        let of: Vec<_> = state
            .0
            .clusters()
            .iter()
            .map(Blocks::cluster)
            .zip(state.1.iter().map(|n| n.tries.clone()))
            .collect();
        move |blocks, tries| {
            let found = of.iter().find(|(cluster, _)| *cluster == blocks.cluster());
            found.into_iter().for_each(|(_, histogram)| histogram.observe(tries as f64));
        }
    }
}

impl Numbers {
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

    fn show(&mut self, blocks: &Blocks) {
        let (allocations, releases) = blocks.turnover();
        self.allocations.add(allocations - self.shown.0);
        self.releases.add(releases - self.shown.1);
        self.shown = (allocations, releases);
        self.usage.set(blocks.used() as f64 / blocks.total() as f64);
    }
}
