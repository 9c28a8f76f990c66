//! Metrics of sets with `maxUnavailable`, under upstream's names.

use flyball_runtime::metrics::{Family, Metrics, Stability};

use super::view::{Roster, View};

const LABELS: &[&str] = &["statefulset_namespace", "statefulset_name", "pod_management_policy"];

const MAX_UNAVAILABLE: Family = Family::gauge(
    "statefulset_controller_statefulset_max_unavailable",
    Stability::Alpha,
    LABELS,
    "Maximum number of unavailable pods allowed during StatefulSet rolling updates",
);
const UNAVAILABLE: Family = Family::gauge(
    "statefulset_controller_statefulset_unavailable_replicas",
    Stability::Alpha,
    LABELS,
    "Current number of unavailable pods in StatefulSet",
);

/// Sets how many pods of a set may be unavailable, and how many are. Upstream does the latter only in syncs that come as far
/// as the update, so its number is an old one while an ordered set waits for a pod.
pub(super) fn observe(metrics: &Metrics, view: &View<'_>) {
    let meta = &view.set.metadata;
    let labels = [meta.namespace.as_str(), meta.name.as_str(), view.set.spec.pod_management_policy.as_str()];
    let roster = Roster::of(view);
    let available = roster.replicas.values().filter(|pod| !view.is_unavailable(pod)).count();
    if let Ok(most) = view.max_unavailable() {
        metrics.gauge(&MAX_UNAVAILABLE, &labels).set(most as f64);
    }
    if view.is_rolling() {
        metrics.gauge(&UNAVAILABLE, &labels).set(f64::from(view.wanted()) - available as f64);
    }
}
