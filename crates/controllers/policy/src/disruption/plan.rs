//! How the pods of a budget fare: which are healthy, and which were to be evicted and are still there. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::time::Time;
use flyball_api::{PodDisruptionBudget, Timestamp};
use smol_str::SmolStr;

/// How long after its eviction was allowed a pod is expected to be marked as being deleted.
const DELETION_TIMEOUT: Duration = Duration::from_secs(120);

/// Everything the decision may look at.
pub struct View<'a> {
    pub budget: &'a PodDisruptionBudget,
    /// The pods it selects, by name.
    pub pods: &'a [Arc<Pod>],
    pub now: Timestamp,
}

#[derive(Debug, Default, PartialEq)]
pub struct Census<'a> {
    /// How many are ready and not about to go.
    pub healthy: i32,
    /// Those whose eviction was allowed and is still awaited, and since when.
    pub disrupted: BTreeMap<SmolStr, Time>,
    /// Those whose eviction was allowed, and who did not go.
    pub overdue: Vec<&'a Pod>,
    /// When the next eviction that is awaited becomes overdue.
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
            // Upstream lets the very moment at which it is due pass; with whole seconds that is a second look.
            census.overdue.push(pod);
        }
        census.healthy = census.healthy.saturating_add(i32::from(pod.is_ready()));
    }
    census
}

/// Whether a pod was made after the budget, as far as that can be told: by its latest version, and by a clock that
/// counts whole seconds.
pub fn came_after(pod: &Pod, budget: &PodDisruptionBudget) -> bool {
    let (pod, budget) = (&pod.metadata, &budget.metadata);
    pod.resource_version > budget.resource_version && pod.creation_timestamp >= budget.creation_timestamp
}
