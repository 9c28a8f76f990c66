//! The ages of the pods that scaling down deletes, compared with the youngest pod: a metric that shows whether
//! [`flyball_common::spare`] chooses young pods. Pure.

use flyball_api::pod::Pod;
use flyball_runtime::Plan;
use flyball_runtime::metrics::{Family, Stability};

use super::Replicated;
use super::plan::View;

/// Under upstream's name. It includes ReplicationControllers.
pub(super) const AGE_RATIO: Family = Family::histogram(
    "replicaset_controller_sorting_deletion_age_ratio",
    Stability::Alpha,
    &[],
    &[0.25, 0.5, 1.0, 2.0, 4.0, 8.0],
    "The ratio of chosen deleted pod's ages to the current youngest pod's age (at the time). Should be <2. The intent of this metric is to measure the rough efficacy of the LogarithmicScaleDown feature gate's effect on the sorting (and deletion) of pods when a replicaset scales down. This only considers Ready pods when calculating and reporting.",
);

/// The ages of the ready pods that are deleted, as multiples of the age of the youngest ready pod. Empty if all are
/// deleted, as nothing was chosen then.
pub fn ratios<T: Replicated>(view: &View<'_, T>, plan: &Plan<Option<&Pod>>) -> Vec<f64> {
    let going: Vec<_> = plan.writes().iter().filter_map(|write| write.tag).collect();
    if going.len() >= view.pods.len() {
        return vec![];
    }
    let age = |pod: &Pod| Some(view.now.duration_since(pod.metadata.creation_timestamp?).as_millis());
    let ready = view.pods.iter().filter(|pod| pod.is_ready());
    // A pod that was created within this millisecond has no age to compare with.
    let Some(youngest) = ready.filter_map(|pod| age(pod)).min().filter(|age| *age > 0) else { return vec![] };
    let going = going.into_iter().filter(|pod| pod.is_ready());
    going.filter_map(age).map(|age| (age / youngest) as f64).collect()
}
