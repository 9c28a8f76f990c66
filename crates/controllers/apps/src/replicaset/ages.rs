//! How old the pods are that scaling down takes, beside the youngest one: a number for those who want to see that
//! [`flyball_common::spare`] takes young pods, and not only the youngest. Pure.

use std::sync::Arc;

use flyball_api::Timestamp;
use flyball_api::pod::Pod;
use flyball_runtime::metrics::{Family, Stability};

use super::plan::Action;

/// Under upstream's name; ReplicationControllers count here, too.
pub(super) const AGE_RATIO: Family = Family::histogram(
    "replicaset_controller_sorting_deletion_age_ratio",
    Stability::Alpha,
    &[],
    &[0.25, 0.5, 1.0, 2.0, 4.0, 8.0],
    "Ages of ready pods that were chosen for deletion, as multiples of the youngest ready pod's. Should be below 2.",
);

/// The ages of the ready pods that are to go, as whole multiples of the youngest ready one's. Where all of them go,
/// there is no choice to judge.
pub fn ratios(pods: &[Arc<Pod>], actions: &[Action<'_>], now: Timestamp) -> Vec<f64> {
    let going = actions.iter().filter_map(|action| match action {
        Action::Delete { pod, .. } => Some(*pod),
        Action::Create { .. } => None,
    });
    if actions.len() >= pods.len() {
        return vec![];
    }
    let age = |pod: &Pod| Some(now.duration_since(pod.metadata.creation_timestamp?).as_millis());
    let ready = pods.iter().filter(|pod| pod.is_ready());
    // What was made within this millisecond has no age to compare with.
    let Some(youngest) = ready.filter_map(|pod| age(pod)).min().filter(|age| *age > 0) else { return vec![] };
    going.filter(|pod| pod.is_ready()).filter_map(age).map(|age| (age / youngest) as f64).collect()
}
