//! The metrics of the controller, under upstream's names.

use std::collections::BTreeMap;

use flyball_api::endpoint_slice::EndpointPort;
use flyball_api::{Key, Object, Service};
use flyball_runtime::Outcome;
use flyball_runtime::metrics::{Family, Metrics, Stability};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use super::hints::HintMode;
use super::packing::Changes;
use crate::addresses;
use crate::slices::{SliceWrite, sorted};

const PER_SYNC: &[f64] =
    &[2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0];
const DEFAULT: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

static CHANGES: Family = Family::counter(
    "endpoint_slice_controller_changes",
    Stability::Alpha,
    &["operation"],
    "Number of EndpointSlice changes",
);
static SYNCS: Family = Family::counter(
    "endpoint_slice_controller_syncs",
    Stability::Alpha,
    &["result"],
    "Number of EndpointSlice syncs",
);
static ADDED: Family = Family::histogram(
    "endpoint_slice_controller_endpoints_added_per_sync",
    Stability::Beta,
    &[],
    PER_SYNC,
    "Number of endpoints added on each Service sync",
);
static REMOVED: Family = Family::histogram(
    "endpoint_slice_controller_endpoints_removed_per_sync",
    Stability::Beta,
    &[],
    PER_SYNC,
    "Number of endpoints removed on each Service sync",
);
static CHANGED: Family = Family::histogram(
    "endpoint_slice_controller_endpointslices_changed_per_sync",
    Stability::Alpha,
    &["topology", "traffic_distribution"],
    DEFAULT,
    "Number of EndpointSlices changed on each Service sync",
);
static SLICES: Family = Family::gauge(
    "endpoint_slice_controller_num_endpoint_slices",
    Stability::Beta,
    &[],
    "Number of EndpointSlices",
);
static DESIRED_SLICES: Family = Family::gauge(
    "endpoint_slice_controller_desired_endpoint_slices",
    Stability::Beta,
    &[],
    "Number of EndpointSlices that would exist with perfect endpoint allocation",
);
static ENDPOINTS: Family = Family::gauge(
    "endpoint_slice_controller_endpoints_desired",
    Stability::Beta,
    &[],
    "Number of endpoints desired",
);
static BY_DISTRIBUTION: Family = Family::gauge(
    "endpoint_slice_controller_services_count_by_traffic_distribution",
    Stability::Beta,
    &["traffic_distribution"],
    "Number of Services using some specific trafficDistribution",
);

/// What one Service has.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Tally {
    pub(super) endpoints: usize,
    pub(super) slices: usize,
    /// The number of slices if all were as full as possible.
    pub(super) desired: usize,
    distribution: Option<SmolStr>,
}

pub(super) struct Numbers {
    metrics: Metrics,
    tallies: Mutex<Tallies>,
}

#[derive(Default)]
struct Tallies {
    services: FxHashMap<Key, Tally>,
    total: Tally,
    by_distribution: BTreeMap<SmolStr, usize>,
}

/// The changes in each family of a Service.
pub(super) type FamilyChanges<'a> = [(addresses::Family, Changes<'a>)];

impl Numbers {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self { metrics, tallies: Mutex::default() }
    }

    /// Records what a sync did.
    pub(super) fn synced(
        &self,
        (service, mode): (&Service, HintMode),
        changes: &FamilyChanges<'_>,
        capacity: usize,
        outcome: &Outcome<SliceWrite>,
    ) {
        let topology = if mode == HintMode::Auto { "Auto" } else { "Disabled" };
        let distribution = mode.distribution(service);
        for done in outcome.written() {
            self.metrics.counter(&CHANGES, &[done.tag.verb.as_str()]).inc();
        }
        for (family, changes) in changes {
            self.metrics.histogram(&ADDED, &[]).observe(changes.added as f64);
            self.metrics.histogram(&REMOVED, &[]).observe(changes.removed as f64);
            let mut failed = outcome.failures.iter().filter_map(|failure| failure.tag.as_ref());
            if !failed.any(|write| write.address_type == family.as_str()) {
                let labels = [topology, distribution.as_deref().unwrap_or_default()];
                self.metrics.histogram(&CHANGED, &labels).observe(changes.count() as f64);
            }
        }
        self.set_tally(&service.key(), Some(tally(changes, capacity, distribution)));
    }

    /// Counts a sync, also of a Service that is gone or gets no slices.
    pub(super) fn count(&self, is_ok: bool) {
        self.metrics.counter(&SYNCS, &[if is_ok { "success" } else { "error" }]).inc();
    }

    pub(super) fn forget(&self, service: &Key) {
        self.set_tally(service, None);
    }

    fn set_tally(&self, service: &Key, tally: Option<Tally>) {
        let mut tallies = self.tallies.lock();
        if tallies.services.get(service) == tally.as_ref() {
            return;
        }
        if let Some(old) = tallies.services.remove(service) {
            tallies.total.endpoints -= old.endpoints;
            tallies.total.slices -= old.slices;
            tallies.total.desired -= old.desired;
            if let Some(count) = old.distribution.and_then(|name| tallies.by_distribution.get_mut(&name)) {
                *count -= 1;
            }
        }
        if let Some(new) = tally {
            tallies.total.endpoints += new.endpoints;
            tallies.total.slices += new.slices;
            tallies.total.desired += new.desired;
            if let Some(name) = &new.distribution {
                *tallies.by_distribution.entry(name.clone()).or_default() += 1;
            }
            tallies.services.insert(service.clone(), new);
        }
        self.metrics.gauge(&ENDPOINTS, &[]).set(tallies.total.endpoints as f64);
        self.metrics.gauge(&SLICES, &[]).set(tallies.total.slices as f64);
        self.metrics.gauge(&DESIRED_SLICES, &[]).set(tallies.total.desired as f64);
        for (name, count) in &tallies.by_distribution {
            self.metrics.gauge(&BY_DISTRIBUTION, &[name]).set(*count as f64);
        }
    }
}

/// Counts the slices and endpoints of all families. In each family, every set of ports has its own slices, and there is
/// at least one slice.
///
/// Upstream: endpointslice/reconciler.go: of a Service with two families only the one that is reconciled last is counted,
/// and that is left to chance.
pub(super) fn tally(changes: &FamilyChanges<'_>, capacity: usize, distribution: Option<SmolStr>) -> Tally {
    let mut tally = Tally { distribution, ..Tally::default() };
    for (_, changes) in changes {
        let mut by_ports = BTreeMap::<Vec<EndpointPort>, usize>::new();
        for slice in changes.after() {
            tally.slices += 1;
            *by_ports.entry(sorted(slice.ports.clone())).or_default() += slice.endpoints.len();
        }
        tally.endpoints += by_ports.values().sum::<usize>();
        let desired: usize = by_ports.values().map(|endpoints| endpoints.div_ceil(capacity.max(1))).sum();
        tally.desired += desired.max(1);
    }
    tally
}
