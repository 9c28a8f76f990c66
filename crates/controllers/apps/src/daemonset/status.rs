//! What to say about a set. Pure.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::daemon_set::DaemonSetStatus;
use flyball_api::pod::Pod;
use flyball_common::pods::next_available;
use rustc_hash::FxHashSet;

use super::view::View;

/// The status of a snapshot: what its nodes should run and do. Of several pods on a node the first counts. On the
/// nodes of `made` there is a new one since: one that takes the place of another shows as no change at all.
pub fn status(view: &View<'_>, made: &[&str]) -> DaemonSetStatus {
    let made: FxHashSet<&str> = made.iter().copied().collect();
    let mut status = DaemonSetStatus {
        observed_generation: view.set.metadata.generation,
        collision_count: view.set.status.collision_count,
        conditions: view.set.status.conditions.clone(),
        ..DaemonSetStatus::default()
    };
    for (node, spot) in view.spots.iter().filter(|(_, spot)| spot.exists) {
        let first = spot.pods.first();
        if !spot.fit.should_run {
            status.number_misscheduled += i32::from(first.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = first else {
            let is_made = i32::from(made.contains(node.as_str()));
            status.current_number_scheduled += is_made;
            status.updated_number_scheduled += is_made;
            continue;
        };
        status.current_number_scheduled += 1;
        status.number_ready += i32::from(pod.is_ready());
        status.number_available += i32::from(view.is_available(pod));
        status.updated_number_scheduled += i32::from(view.is_updated(pod));
    }
    status.number_unavailable = status.desired_number_scheduled - status.number_available;
    status
}

/// Whether the status says anything that was not said before.
pub fn is_news(before: &DaemonSetStatus, status: &DaemonSetStatus) -> bool {
    let observed_generation = before.observed_generation.max(status.observed_generation);
    before.observed_generation < status.observed_generation
        || DaemonSetStatus { observed_generation, ..before.clone() }
            != DaemonSetStatus { observed_generation, ..status.clone() }
}

/// How long until a ready pod has been so for long enough, which no event tells. It may be one that surges: the status
/// does not speak of it, and yet the old one beside it waits for that moment.
pub fn time_to_available(view: &View<'_>, status: &DaemonSetStatus, pods: &[Arc<Pod>]) -> Option<Duration> {
    let patience = view.set.spec.min_ready_seconds;
    let is_due = patience > 0 && status.number_ready != status.number_available;
    let fallback = is_due.then(|| Duration::from_secs(u64::try_from(patience).unwrap_or(0)));
    next_available(pods, patience, view.now).or(fallback)
}
