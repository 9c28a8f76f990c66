//! When a pod uses a claim, and what follows for the claim. Pure.

use flyball_api::pod::{Pod, VolumeSource};
use flyball_api::{Condition, PersistentVolumeClaim, Timestamp, condition};

/// The condition that says that no pod uses a claim.
pub const UNUSED: &str = "Unused";

/// Whether a volume of a pod keeps its claim from going. Only pods on a node count: no node starts one whose claim is
/// being deleted. A pod that its node is done with gives the claims up that were made for it, so that a finalizer of
/// the pod that waits for them cannot wait for ever; claims that the pod names are kept until it is gone.
pub fn keeps(pod: &Pod, source: &VolumeSource) -> bool {
    let is_on_node = !pod.spec.node_name.is_empty();
    is_on_node && (!matches!(source, VolumeSource::Ephemeral(_)) || !is_shut_down(pod))
}

/// Whether a volume of a pod makes its claim one in use: any pod counts that has not ended.
pub fn refers(pod: &Pod, _: &VolumeSource) -> bool {
    !pod.has_stopped()
}

fn is_shut_down(pod: &Pod) -> bool {
    pod.metadata.is_deleting() && pod.metadata.deletion_grace_period_seconds == Some(0)
}

/// The conditions of a claim once it says whether it is in use; nothing if it says so already.
pub fn conditions(claim: &PersistentVolumeClaim, is_used: bool, now: Timestamp) -> Option<Vec<Condition>> {
    let known = condition::find(&claim.status.conditions, UNUSED);
    if known.is_some_and(|known| known.is_true() != is_used) {
        return None;
    }
    let (status, reason, message) = match is_used {
        true => (condition::FALSE, "PodUsingPVC", "A pod is currently referencing this PVC"),
        false => (condition::TRUE, "NoPodsUsingPVC", "No pods are currently referencing this PVC"),
    };
    let new = Condition {
        type_: UNUSED.into(),
        status: status.into(),
        last_transition_time: Some(now),
        reason: reason.into(),
        message: message.into(),
        ..Condition::default()
    };
    let mut conditions = claim.status.conditions.clone();
    condition::set(&mut conditions, new);
    Some(conditions)
}
