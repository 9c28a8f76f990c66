//! Numbers about volumes and claims, under upstream's names.

use std::collections::BTreeMap;

use flyball_api::{Key, PersistentVolume, PersistentVolumeClaim};
use flyball_cache::Store;
use flyball_runtime::metrics::{Family, Metrics, Stability};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use tokio::time::Instant;

use super::matching::mode;
use super::plugins::{UNKNOWN, plugin_of};
use crate::backoff::Backoff;
use crate::class;
use crate::names::BOUND;

const SECONDS: &[f64] = &[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0];

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Family {
    Family::gauge(name, Stability::Alpha, labels, help)
}

const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Family {
    Family::counter(name, Stability::Alpha, labels, help)
}

static VOLUMES: Family = gauge(
    "pv_collector_total_pv_count",
    &["plugin_name", "volume_mode"],
    "Gauge measuring total number of persistent volumes",
);
static BOUND_VOLUMES: Family = gauge(
    "pv_collector_bound_pv_count",
    &["storage_class"],
    "Gauge measuring number of persistent volume currently bound",
);
static UNBOUND_VOLUMES: Family = gauge(
    "pv_collector_unbound_pv_count",
    &["storage_class"],
    "Gauge measuring number of persistent volume currently unbound",
);
const CLAIM_LABELS: &[&str] = &["namespace", "storage_class", "volume_attributes_class"];
static BOUND_CLAIMS: Family = gauge(
    "pv_collector_bound_pvc_count",
    CLAIM_LABELS,
    "Gauge measuring number of persistent volume claim currently bound",
);
static UNBOUND_CLAIMS: Family = gauge(
    "pv_collector_unbound_pvc_count",
    CLAIM_LABELS,
    "Gauge measuring number of persistent volume claim currently unbound",
);
static ERRORS: Family = counter(
    "volume_operation_errors_total",
    &["plugin_name", "operation_name"],
    "Total volume operation errors",
);
static OLD_ERRORS: Family = counter(
    "volume_operation_total_errors",
    &["plugin_name", "operation_name"],
    "Total volume operation errors",
);
static LATENCY: Family = Family::histogram(
    "volume_operation_total_seconds",
    Stability::Alpha,
    &["plugin_name", "operation_name"],
    SECONDS,
    "Storage operation end to end duration in seconds",
);
static OPERATIONS: Family = Family::histogram(
    "storage_operation_duration_seconds",
    Stability::Alpha,
    &["volume_plugin", "operation_name", "status", "migrated"],
    SECONDS,
    "Storage operation duration",
);
static CLASSIFIED: Family = counter(
    "retroactive_storageclass_total",
    &[],
    "Total number of retroactive StorageClass assignments to persistent volume claim",
);
static UNCLASSIFIED: Family = counter(
    "retroactive_storageclass_errors_total",
    &[],
    "Total number of failed retroactive StorageClass assignments to persistent volume claim",
);

/// A default class was given to a claim, or should have been.
pub(super) fn classified(metrics: &Metrics, went_well: bool) {
    metrics.counter(&CLASSIFIED, &[]).inc();
    if !went_well {
        metrics.counter(&UNCLASSIFIED, &[]).inc();
    }
}

/// Does something on behalf of a plugin of ours, and notes how long it took.
pub(super) async fn timed<E>(
    metrics: &Metrics,
    plugin: &str,
    operation: &str,
    work: impl Future<Output = Result<(), E>>,
) -> Result<(), E> {
    let started = Instant::now();
    let done = work.await;
    let status = if done.is_ok() { "success" } else { "fail-unknown" };
    let seconds = started.elapsed().as_secs_f64();
    metrics.histogram(&OPERATIONS, &[plugin, operation, status, "false"]).observe(seconds);
    done
}

/// When volumes began to be made and deleted, for how long that takes in all.
pub(super) struct Operations {
    metrics: Metrics,
    begun: Mutex<FxHashMap<Key, Begun>>,
}

struct Begun {
    plugin: SmolStr,
    operation: &'static str,
    at: Instant,
    backoff: Backoff,
    is_asked: bool,
}

impl Operations {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self { metrics, begun: Mutex::default() }
    }

    /// An operation on a claim or volume begins, unless it has.
    pub(super) fn begin(&self, key: &Key, plugin: &str, operation: &'static str) {
        let begin = || Begun {
            plugin: plugin.into(),
            operation,
            at: Instant::now(),
            backoff: Backoff::default(),
            is_asked: false,
        };
        self.begun.lock().entry(key.clone()).or_insert_with(begin);
    }

    pub(super) fn failed(&self, key: &Key) {
        if let Some(Begun { plugin, operation, .. }) = self.begun.lock().get(key) {
            for family in [&ERRORS, &OLD_ERRORS] {
                self.metrics.counter(family, &[plugin, operation]).inc();
            }
        }
    }

    /// The plugin has failed: it is left alone for a while.
    pub(super) fn rest(&self, key: &Key) {
        if let Some(begun) = self.begun.lock().get_mut(key) {
            begun.backoff.failed(Instant::now());
        }
    }

    /// Whether the plugin is to be left alone.
    pub(super) fn is_resting(&self, key: &Key) -> bool {
        self.begun.lock().get(key).is_some_and(|begun| begun.backoff.is_active(Instant::now()))
    }

    /// The server is asked to delete the volume; says whether it was before.
    pub(super) fn asked(&self, key: &Key) -> bool {
        let mut begun = self.begun.lock();
        begun.get_mut(key).is_some_and(|begun| std::mem::replace(&mut begun.is_asked, true))
    }

    pub(super) fn done(&self, key: &Key) {
        if let Some(Begun { plugin, operation, at, .. }) = self.begun.lock().remove(key) {
            self.metrics.histogram(&LATENCY, &[&plugin, operation]).observe(at.elapsed().as_secs_f64());
        }
    }

    /// Nobody waits for it any more.
    pub(super) fn forget(&self, key: &Key) {
        self.begun.lock().remove(key);
    }
}

type Counts = BTreeMap<(&'static str, Vec<SmolStr>), (&'static Family, u32)>;

/// Counts volumes and claims whenever somebody asks.
pub(super) fn collect(
    metrics: &Metrics,
    volumes: Store<PersistentVolume>,
    claims: Store<PersistentVolumeClaim>,
) {
    metrics.show(&[&CLASSIFIED, &UNCLASSIFIED]);
    let shown: Mutex<Counts> = Mutex::default();
    metrics.on_scrape(move |metrics| {
        let counts = count(&volumes.list(), &claims.list());
        let mut shown = shown.lock();
        for ((_, labels), (family, number)) in &counts {
            let labels: Vec<&str> = labels.iter().map(SmolStr::as_str).collect();
            metrics.gauge(family, &labels).set(f64::from(*number));
        }
        for ((_, labels), (family, _)) in shown.iter().filter(|(key, _)| !counts.contains_key(*key)) {
            let labels: Vec<&str> = labels.iter().map(SmolStr::as_str).collect();
            metrics.forget(family, &labels);
        }
        *shown = counts;
    });
}

fn count(
    volumes: &[std::sync::Arc<PersistentVolume>],
    claims: &[std::sync::Arc<PersistentVolumeClaim>],
) -> Counts {
    let mut counts = Counts::new();
    let mut add = |family: &'static Family, labels: Vec<SmolStr>| {
        counts.entry((family.name, labels)).or_insert((family, 0)).1 += 1;
    };
    for volume in volumes {
        let plugin = plugin_of(volume).unwrap_or(UNKNOWN);
        add(&VOLUMES, vec![plugin.into(), mode(volume.spec.volume_mode.as_ref()).into()]);
        let family = if volume.status.phase == BOUND { &BOUND_VOLUMES } else { &UNBOUND_VOLUMES };
        add(family, vec![volume.spec.storage_class_name.clone()]);
    }
    for claim in claims {
        let family = if claim.status.phase == BOUND { &BOUND_CLAIMS } else { &UNBOUND_CLAIMS };
        let attributes = claim.spec.volume_attributes_class_name.clone().unwrap_or_default();
        add(family, vec![claim.metadata.namespace.clone(), class::of_claim(claim).into(), attributes]);
    }
    counts
}
