//! The messages of events, word for word as upstream's: users' tools match on them.

use flyball_api::LabelSelector;
use flyball_api::pod::Pod;
use flyball_common::go_text::selector;

/// Some pods of the budget have no controller, although the budget depends on the scale of the controllers.
pub(super) fn unmanaged(of: Option<&LabelSelector>) -> String {
    format!(
        "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the \
         status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for \
         these pods please set \".spec.minAvailable\" field of the PDB to an integer value.",
        selector(of)
    )
}

/// An evicted pod was not deleted in time.
///
/// Upstream: `pkg/controller/disruption/disruption.go`, `buildDisruptedPodMap`: prints the namespace instead of the name.
pub(super) fn not_deleted(pod: &Pod) -> String {
    let namespace = &pod.metadata.namespace;
    format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't")
}

/// Several budgets select a pod.
pub(super) fn overlap(pod: &Pod, chosen: &str) -> String {
    let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
    format!(
        "Pod {namespace:?}/{name:?} matches multiple PodDisruptionBudgets.  Chose {chosen:?} arbitrarily."
    )
}
