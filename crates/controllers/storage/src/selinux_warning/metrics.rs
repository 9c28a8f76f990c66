//! Conflicts as metrics, under upstream's name.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_runtime::metrics::{Family, Metrics, Stability};
use parking_lot::Mutex;

use super::registry::{Conflict, Registry};

static CONFLICT: Family = Family::gauge(
    "selinux_warning_controller_selinux_volume_conflict",
    Stability::Alpha,
    &["property", "pod1_namespace", "pod1_name", "pod1_value", "pod2_namespace", "pod2_name", "pod2_value"],
    "Conflict between two Pods using the same volume",
);

/// Shows the conflicts at each scrape, for as long as the controller lives.
pub(super) fn collect(metrics: &Metrics, registry: &Arc<Mutex<Registry>>) {
    let (registry, shown) = (Arc::downgrade(registry), Mutex::new(BTreeSet::<Conflict>::new()));
    metrics.on_scrape(move |metrics| {
        let now = registry.upgrade().map(|registry| registry.lock().conflicts()).unwrap_or_default();
        let mut shown = shown.lock();
        for gone in shown.difference(&now) {
            metrics.forget(&CONFLICT, &labels(gone));
        }
        for there in &now {
            metrics.gauge(&CONFLICT, &labels(there)).set(1.0);
        }
        *shown = now;
    });
}

fn labels(conflict: &Conflict) -> [&str; 7] {
    let Conflict { about, pod, value, other, other_value } = conflict;
    [about.name(), &pod.namespace, &pod.name, value, &other.namespace, &other.name, other_value]
}
