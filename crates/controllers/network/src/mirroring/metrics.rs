//! The metrics of the controller, under upstream's names.

use flyball_api::Key;
use flyball_runtime::metrics::{DOUBLING_SECONDS as SECONDS, Family, Metrics, Stability};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::mirror::Mirror;

const PER_SYNC: &[f64] =
    &[2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0];
const fn per_sync(name: &'static str, help: &'static str) -> Family {
    Family::histogram(name, Stability::Alpha, &[], PER_SYNC, help)
}

const fn gauge(name: &'static str, help: &'static str) -> Family {
    Family::gauge(name, Stability::Alpha, &[], help)
}

static CHANGES: Family = Family::counter(
    "endpoint_slice_mirroring_controller_changes",
    Stability::Alpha,
    &["operation"],
    "Number of EndpointSlice changes",
);
static DURATION: Family = Family::histogram(
    "endpoint_slice_mirroring_controller_endpoints_sync_duration",
    Stability::Alpha,
    &[],
    SECONDS,
    "Duration of syncEndpoints() in seconds",
);
static ADDED: Family = per_sync(
    "endpoint_slice_mirroring_controller_endpoints_added_per_sync",
    "Number of endpoints added on each Endpoints sync",
);
static UPDATED: Family = per_sync(
    "endpoint_slice_mirroring_controller_endpoints_updated_per_sync",
    "Number of endpoints updated on each Endpoints sync",
);
static REMOVED: Family = per_sync(
    "endpoint_slice_mirroring_controller_endpoints_removed_per_sync",
    "Number of endpoints removed on each Endpoints sync",
);
static SKIPPED: Family = per_sync(
    "endpoint_slice_mirroring_controller_addresses_skipped_per_sync",
    "Number of addresses skipped on each Endpoints sync due to being invalid or exceeding MaxEndpointsPerSubset",
);
static SLICES: Family =
    gauge("endpoint_slice_mirroring_controller_num_endpoint_slices", "Number of EndpointSlices");
static DESIRED_SLICES: Family = gauge(
    "endpoint_slice_mirroring_controller_desired_endpoint_slices",
    "Number of EndpointSlices that would exist with perfect endpoint allocation",
);
static ENDPOINTS: Family =
    gauge("endpoint_slice_mirroring_controller_endpoints_desired", "Number of endpoints desired");

pub(super) struct Numbers {
    metrics: Metrics,
    mirrors: Mutex<Mirrors>,
}

/// Endpoints and slices, of each key and in total.
#[derive(Default)]
struct Mirrors {
    each: FxHashMap<Key, (usize, usize)>,
    endpoints: usize,
    slices: usize,
}

impl Numbers {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self { metrics, mirrors: Mutex::default() }
    }

    pub(super) fn wrote(&self, operation: &str) {
        self.metrics.counter(&CHANGES, &[operation]).inc();
    }

    pub(super) fn took(&self, time: jiff::SignedDuration) {
        self.metrics.histogram(&DURATION, &[]).observe(time.as_secs_f64());
    }

    /// Records what is planned for a key; `None` if nothing is mirrored.
    pub(super) fn planned(&self, key: &Key, mirror: Option<&Mirror<'_>>) {
        if let Some(mirror) = mirror {
            let observe = |family, count: usize| self.metrics.histogram(family, &[]).observe(count as f64);
            observe(&ADDED, mirror.totals.added);
            observe(&UPDATED, mirror.totals.updated);
            observe(&REMOVED, mirror.totals.removed);
            observe(&SKIPPED, mirror.skipped);
        }
        self.set_totals(key, mirror.map(|mirror| (mirror.endpoints, mirror.slices)));
    }

    fn set_totals(&self, key: &Key, now: Option<(usize, usize)>) {
        let mut mirrors = self.mirrors.lock();
        let before = match now {
            Some(now) => mirrors.each.insert(key.clone(), now),
            None => mirrors.each.remove(key),
        };
        let ((endpoints, slices), (had_endpoints, had_slices)) =
            (now.unwrap_or_default(), before.unwrap_or_default());
        mirrors.endpoints = mirrors.endpoints + endpoints - had_endpoints;
        mirrors.slices = mirrors.slices + slices - had_slices;
        let set = |family, count: usize| self.metrics.gauge(family, &[]).set(count as f64);
        set(&ENDPOINTS, mirrors.endpoints);
        set(&SLICES, mirrors.slices);
        // Every set of ports has exactly one slice, so there are as many as desired.
        set(&DESIRED_SLICES, mirrors.slices);
    }
}
