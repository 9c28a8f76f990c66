//! Metrics of the process, in Prometheus' text format 0.0.4, with upstream's names, labels and buckets.
//!
//! A [`Family`] is declared once, as a constant; a handle to one of its series is cheap to keep and to increment:
//!
//! ```
//! use flyball_runtime::metrics::{Family, Metrics, Stability};
//! const SYNCS: Family = Family::counter("syncs_total", Stability::Alpha, &["result"], "Syncs by result.");
//! let metrics = Metrics::default();
//! metrics.counter(&SYNCS, &["success"]).inc();
//! assert!(metrics.text().contains("syncs_total{result=\"success\"} 1\n"));
//! ```

mod families;
mod informers;
mod observe;
mod process;
mod series;
#[cfg(test)]
mod tests;
mod text;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use smol_str::SmolStr;

pub(crate) use families::stale_skips;
pub use families::*;
pub use observe::{ClientMetrics, Passage, QueueMetrics, RunningController};
pub use series::{Counter, Gauge, Histogram};
use series::{Kind, Series};

/// Further series of one family are counted together, so that memory is bounded.
const MAX_SERIES: usize = 20_000;
/// Queues observed under one name; older ones, of controllers that were set up again, are dropped.
const MAX_QUEUES_PER_NAME: usize = 16;
/// Replaces a label value that is not on its allow list.
const UNEXPECTED: &str = "unexpected";

/// The stability level of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stability {
    /// May change with any release.
    Alpha,
    Beta,
    Stable,
    /// Not a metric of Kubernetes, so it has no level.
    Unstated,
}

impl fmt::Display for Stability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stability::Alpha => "ALPHA",
            Stability::Beta => "BETA",
            Stability::Stable => "STABLE",
            Stability::Unstated => "",
        })
    }
}

/// A metric's name and shape.
#[derive(Debug)]
pub struct Family {
    pub name: &'static str,
    /// Shown in front of the help text.
    pub stability: Stability,
    pub labels: &'static [&'static str],
    pub help: &'static str,
    kind: Kind,
    buckets: &'static [f64],
}

impl Family {
    pub const fn counter(
        name: &'static str,
        stability: Stability,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, stability, labels, help, kind: Kind::Counter, buckets: &[] }
    }

    pub const fn gauge(
        name: &'static str,
        stability: Stability,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, stability, labels, help, kind: Kind::Gauge, buckets: &[] }
    }

    pub const fn histogram(
        name: &'static str,
        stability: Stability,
        labels: &'static [&'static str],
        buckets: &'static [f64],
        help: &'static str,
    ) -> Self {
        Self { name, stability, labels, help, kind: Kind::Histogram, buckets }
    }
}

/// The metrics that upstream hides in this version, as they are deprecated; `--show-hidden-metrics-for-version` shows them.
pub const DEPRECATED: [&str; 1] = ["volume_operation_total_errors"];

/// What operators have disabled with flags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// Metrics that are not shown.
    pub disabled: BTreeSet<String>,
    /// `metric,label` to the values it may have; any other is shown as `unexpected`.
    pub allowed: BTreeMap<String, BTreeSet<String>>,
}

/// The registry of a process. Cheap to clone; all clones share the metrics.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

type QueueProbe = Box<dyn Fn() -> (usize, (Duration, Duration)) + Send + Sync>;
type Collector = Box<dyn Fn(&Metrics) + Send + Sync>;

struct Inner {
    policy: Policy,
    families: Mutex<BTreeMap<&'static str, Entry>>,
    queues: Mutex<BTreeMap<&'static str, Vec<QueueProbe>>>,
    collectors: Mutex<Vec<Collector>>,
    started: jiff::Timestamp,
}

struct Entry {
    family: &'static Family,
    series: BTreeMap<Box<[SmolStr]>, Series>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(Policy::default())
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Metrics({} families)", self.inner.families.lock().len())
    }
}

impl Metrics {
    /// A registry with the families of the process itself.
    pub fn new(policy: Policy) -> Self {
        let metrics = Self {
            inner: Arc::new(Inner {
                policy,
                families: Mutex::default(),
                queues: Mutex::default(),
                collectors: Mutex::default(),
                started: process::started(),
            }),
        };
        metrics.counter(&DISABLED, &[]).add(metrics.inner.policy.disabled.len() as u64);
        metrics.show(&[&HIDDEN, &UNEXPECTED_VALUES]);
        metrics.gauge(&PROCESS_START_TIME, &[]).set(metrics.start_time().as_microsecond() as f64 / 1e6);
        metrics
    }

    pub fn start_time(&self) -> jiff::Timestamp {
        self.inner.started
    }

    /// Shows families without labels from now on, at zero: a metric that is absent until the first failure cannot be alerted
    /// on.
    pub fn show(&self, families: &[&'static Family]) {
        for family in families {
            self.series(family, &[]);
        }
    }

    /// The counter with these label values, in the order of the family's labels.
    pub fn counter(&self, family: &'static Family, labels: &[&str]) -> Counter {
        match self.series(family, labels) {
            Series::Counter(counter) => counter,
            _ => Counter::default(),
        }
    }

    /// The gauge with these label values.
    pub fn gauge(&self, family: &'static Family, labels: &[&str]) -> Gauge {
        match self.series(family, labels) {
            Series::Gauge(gauge) => gauge,
            _ => Gauge::default(),
        }
    }

    /// The histogram with these label values.
    pub fn histogram(&self, family: &'static Family, labels: &[&str]) -> Histogram {
        match self.series(family, labels) {
            Series::Histogram(histogram) => histogram,
            _ => Histogram::new(family.buckets),
        }
    }

    /// Removes one series, for gauges about an object that is gone.
    pub fn forget(&self, family: &'static Family, labels: &[&str]) {
        let key = self.key(family, labels);
        if let Some(entry) = self.inner.families.lock().get_mut(family.name) {
            entry.series.remove(&key);
        }
    }

    /// Calls `collect` before every scrape, for values that are read rather than counted.
    pub fn on_scrape(&self, collect: impl Fn(&Metrics) + Send + Sync + 'static) {
        self.inner.collectors.lock().push(Box::new(collect));
    }

    /// What `/metrics` serves.
    pub fn text(&self) -> String {
        self.collect();
        let families = self.inner.families.lock();
        let shown = families.values().filter(|entry| !families::is_sli(entry.family));
        text::render(
            shown.filter(|entry| self.shows(entry.family)).map(|entry| (entry.family, &entry.series)),
        )
    }

    /// What `/metrics/slis` serves.
    pub fn slis(&self) -> String {
        let families = self.inner.families.lock();
        let shown = families
            .values()
            .filter(|entry| families::is_sli(entry.family) || entry.family.name == PROCESS_START_TIME.name);
        text::render(
            shown.filter(|entry| self.shows(entry.family)).map(|entry| (entry.family, &entry.series)),
        )
    }

    /// Whether some labels may only have certain values.
    fn limits_labels(&self) -> bool {
        !self.inner.policy.allowed.is_empty()
    }

    fn shows(&self, family: &Family) -> bool {
        !self.inner.policy.disabled.contains(family.name)
    }

    fn series(&self, family: &'static Family, labels: &[&str]) -> Series {
        debug_assert_eq!(labels.len(), family.labels.len(), "labels of {}", family.name);
        let key = self.key(family, labels);
        let mut families = self.inner.families.lock();
        let entry = families.entry(family.name).or_insert_with(|| Entry { family, series: BTreeMap::new() });
        if let Some(series) = entry.series.get(&key) {
            return series.clone();
        }
        let series = Series::new(family.kind, family.buckets);
        if entry.series.len() < MAX_SERIES {
            entry.series.insert(key, series.clone());
        }
        series
    }

    fn key(&self, family: &Family, labels: &[&str]) -> Box<[SmolStr]> {
        let allowed = &self.inner.policy.allowed;
        let values = family.labels.iter().zip(labels.iter().chain(std::iter::repeat(&"")));
        values
            .map(|(label, value)| {
                let list =
                    (!allowed.is_empty()).then(|| allowed.get(&format!("{},{label}", family.name))).flatten();
                match list {
                    Some(list) if !list.contains(*value) => {
                        self.counter(&UNEXPECTED_VALUES, &[]).inc();
                        SmolStr::new_static(UNEXPECTED)
                    }
                    _ => SmolStr::new(value),
                }
            })
            .collect()
    }
}
