//! The controller's metrics, under upstream's names.

use std::collections::BTreeMap;

use flyball_api::ResourceClaim;
use flyball_cache::Store;
use flyball_runtime::Metrics;
use flyball_runtime::metrics::{Family, Stability};

use super::plan::{ENTRY, wants_admin_access};

static CREATES: Family = Family::counter(
    "resourceclaim_controller_creates_total",
    Stability::Alpha,
    &["status", "admin_access"],
    "Number of ResourceClaims creation requests, categorized by creation status and admin access",
);
static CLAIMS: Family = Family::gauge(
    "resourceclaim_controller_resource_claims",
    Stability::Alpha,
    &["allocated", "admin_access", "source"],
    "Number of ResourceClaims, categorized by allocation status, admin access, and source. Source can be 'resource_claim_template' (created from a template), 'extended_resource' (extended resources), or empty (manually created by a user).",
);
/// The annotation of ResourceClaims that the scheduler creates for extended resources.
const EXTENDED: &str = "resource.kubernetes.io/extended-resource-claim";
const SOURCES: [&str; 3] = ["", "resource_claim_template", "extended_resource"];

fn label(holds: bool) -> &'static str {
    if holds { "true" } else { "false" }
}

/// Counts an attempt to create a ResourceClaim.
pub(super) fn created(metrics: &Metrics, succeeded: bool, admin_access: bool) {
    let status = if succeeded { "success" } else { "failure" };
    metrics.counter(&CREATES, &[status, label(admin_access)]).inc();
}

/// Counts all ResourceClaims at each scrape.
pub(super) fn on_scrape(metrics: &Metrics, claims: Store<ResourceClaim>) {
    metrics.on_scrape(move |metrics| {
        let mut counts: BTreeMap<(bool, bool, &str), usize> = BTreeMap::new();
        for claim in claims.list() {
            *counts.entry(labels(&claim)).or_default() += 1;
        }
        for (allocated, admin, source) in [false, true]
            .iter()
            .flat_map(|a| [false, true].iter().flat_map(move |b| SOURCES.iter().map(move |s| (*a, *b, *s))))
        {
            let values = [label(allocated), label(admin), source];
            match counts.get(&(allocated, admin, source)) {
                Some(count) => metrics.gauge(&CLAIMS, &values).set(*count as f64),
                None => metrics.forget(&CLAIMS, &values),
            }
        }
    });
}

fn labels(claim: &ResourceClaim) -> (bool, bool, &'static str) {
    let annotations = &claim.metadata.annotations;
    let source = match (annotations.get(EXTENDED), annotations.get(ENTRY)) {
        (Some("true"), _) => "extended_resource",
        (_, Some(entry)) if !entry.is_empty() => "resource_claim_template",
        _ => "",
    };
    (claim.status.allocation.is_some(), wants_admin_access(&claim.spec.to_value()), source)
}
