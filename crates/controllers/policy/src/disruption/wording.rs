//! What users are told, word for word as upstream tells it: their tools match on it.

use flyball_api::LabelSelector;
use flyball_api::pod::Pod;
use flyball_common::go_text::selector;

/// Told of a budget some of whose pods nobody controls, although its numbers depend on who does.
pub(super) fn unmanaged(of: Option<&LabelSelector>) -> String {
    format!(
        "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the \
         status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for \
         these pods please set \".spec.minAvailable\" field of the PDB to an integer value.",
        selector(of)
    )
}

/// Told of a pod whose eviction was allowed and which did not go. The namespace stands where the name should.
///
/// Upstream: `pkg/controller/disruption/disruption.go`, `buildDisruptedPodMap`.
pub(super) fn not_deleted(pod: &Pod) -> String {
    let namespace = &pod.metadata.namespace;
    format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't")
}

/// Told of a pod that several budgets select.
pub(super) fn overlap(pod: &Pod, chosen: &str) -> String {
    let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
    format!(
        "Pod {namespace:?}/{name:?} matches multiple PodDisruptionBudgets.  Chose {chosen:?} arbitrarily."
    )
}
