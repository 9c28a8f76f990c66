//! The health of a budget's pods, and the evictions that have not led to a deletion yet. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::time::Time;
use flyball_api::{PodDisruptionBudget, Timestamp};
use smol_str::SmolStr;

use super::plan::View;

/// The time between the eviction of a pod and its deletion timestamp.
const DELETION_TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Debug, Default, PartialEq)]
pub struct Census<'a> {
    /// Pods that are ready and not about to be deleted.
    pub healthy: i32,
    /// Pods that were evicted and should be deleted soon, with the time of the eviction.
    pub disrupted: BTreeMap<SmolStr, Time>,
    /// Pods that were evicted and were not deleted in time.
    pub overdue: Vec<&'a Pod>,
    /// When the next of the disrupted pods becomes overdue.
    pub recheck: Option<Timestamp>,
}

pub fn count<'a>(view: &View<'a>) -> Census<'a> {
    let mut census = Census::default();
    for pod in view.pods.iter().filter(|pod| !pod.metadata.is_deleting()) {
        let name = &pod.metadata.name;
        if let Some(since) = view.budget.status.disrupted_pods.get(name) {
            let due = since.0.checked_add(DELETION_TIMEOUT).unwrap_or(Timestamp::MAX);
            if due > view.now {
                census.disrupted.insert(name.clone(), *since);
                census.recheck = Some(census.recheck.map_or(due, |first| first.min(due)));
                continue;
            }
            // Upstream waits until the time is past; with whole seconds that would be another sync.
            census.overdue.push(pod);
        }
        census.healthy = census.healthy.saturating_add(i32::from(pod.is_ready()));
    }
    census
}

/// Whether a pod was created after the budget, as far as its latest version and timestamps of whole seconds show. Versions of
/// resources in separate etcds (`--etcd-servers-overrides`) show nothing: then a sync is delayed once without need, or not.
pub fn is_newer(pod: &Pod, budget: &PodDisruptionBudget) -> bool {
    let (pod, budget) = (&pod.metadata, &budget.metadata);
    pod.resource_version > budget.resource_version && pod.creation_timestamp >= budget.creation_timestamp
}
