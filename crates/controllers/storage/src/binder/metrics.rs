//! Metrics about volumes and claims, under upstream's names.

use std::collections::BTreeMap;
use std::time::Duration;

use flyball_api::{PersistentVolume, PersistentVolumeClaim};
use flyball_cache::Store;
use flyball_runtime::metrics::{Family, Metrics, Stability, VOLUME_SECONDS as SECONDS};
use parking_lot::Mutex;
use smol_str::SmolStr;

use super::matching::mode;
use super::plugins::{UNKNOWN, plugin_of};
use crate::class;
use crate::names::BOUND;

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
pub(super) static ERRORS: Family = counter(
    "volume_operation_errors_total",
    &["plugin_name", "operation_name"],
    "Total volume operation errors",
);
/// Hidden, see [`flyball_runtime::metrics::DEPRECATED`].
pub(super) static OLD_ERRORS: Family = counter(
    "volume_operation_total_errors",
    &["plugin_name", "operation_name"],
    "(Deprecated since 1.36.0) Total volume operation errors",
);
pub(super) static LATENCY: Family = Family::histogram(
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
static CLASS_SET: Family = counter(
    "retroactive_storageclass_total",
    &[],
    "Total number of retroactive StorageClass assignments to persistent volume claim",
);
static CLASS_NOT_SET: Family = counter(
    "retroactive_storageclass_errors_total",
    &[],
    "Total number of failed retroactive StorageClass assignments to persistent volume claim",
);

/// Counts an attempt to give a claim the default class.
pub(super) fn class_set(metrics: &Metrics, is_ok: bool) {
    metrics.counter(&CLASS_SET, &[]).inc();
    if !is_ok {
        metrics.counter(&CLASS_NOT_SET, &[]).inc();
    }
}

/// Records how long an in-tree plugin took for an operation.
pub(crate) fn observe(metrics: &Metrics, plugin: &str, operation: &str, took: Duration, is_ok: bool) {
    let status = if is_ok { "success" } else { "fail-unknown" };
    metrics.histogram(&OPERATIONS, &[plugin, operation, status, "false"]).observe(took.as_secs_f64());
}

type Counts = BTreeMap<(&'static str, Vec<SmolStr>), (&'static Family, u32)>;

/// Counts volumes and claims at each scrape.
pub(super) fn collect(
    metrics: &Metrics,
    volumes: Store<PersistentVolume>,
    claims: Store<PersistentVolumeClaim>,
) {
    metrics.show(&[&CLASS_SET, &CLASS_NOT_SET]);
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
