//! The status of a set. Pure.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::daemon_set::DaemonSetStatus;
use flyball_api::{ControllerRevision, DaemonSet};
use flyball_common::pods::next_available;
use flyball_common::revisions;
use flyball_runtime::plan::Group;
use flyball_runtime::{Effect, Outcome, Write};
use rustc_hash::FxHashSet;

use super::plan::Step;
use super::view::View;

/// What follows on the plan for the pods: the status, in any case; before it the deletion of `obsolete` revisions, if all writes
/// succeeded. If one failed, none of the new pods counts.
pub fn after(view: &View<'_>, outcome: &Outcome<Step<'_>>, obsolete: &[&Arc<ControllerRevision>]) -> Group {
    let created = outcome.done.iter().filter_map(|done| match done.tag {
        Step::Create { node } => Some(node),
        Step::Delete(_) => None,
    });
    let created: Vec<&str> = created.filter(|_| outcome.is_ok()).collect();
    let obsolete = obsolete.iter().copied().filter(|_| outcome.is_ok());
    let status = write(view.set, &status(view, &created));
    let trim = Effect::from(Effect::sequence(revisions::trim(obsolete)));
    Effect::each([trim].into_iter().chain(status.map(Effect::from)))
}

/// The write of `status`, if it has changed.
pub fn write(set: &DaemonSet, status: &DaemonSetStatus) -> Option<Write> {
    let DaemonSetStatus { desired_number_scheduled: desired, number_ready: ready, .. } = status;
    let why = || format!("{desired} nodes should run a pod, {ready} are ready");
    is_changed(&set.status, status).then(|| Write::status(set, status).why(why()))
}

/// The status: which nodes should run a pod, and which do. Of several pods on a node the first counts. The nodes of
/// `created` have got a new pod in this sync; one that replaces another pod does not change the counts.
pub fn status(view: &View<'_>, created: &[&str]) -> DaemonSetStatus {
    let created: FxHashSet<&str> = created.iter().copied().collect();
    let mut status = DaemonSetStatus {
        observed_generation: view.set.metadata.generation,
        collision_count: view.set.status.collision_count,
        conditions: view.set.status.conditions.clone(),
        ..DaemonSetStatus::default()
    };
    for (node, on_node) in view.daemon_nodes.iter().filter(|(_, on_node)| on_node.exists) {
        let first = on_node.pods.first();
        if !on_node.fit.should_run {
            status.number_misscheduled += i32::from(first.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = first else {
            let is_created = i32::from(created.contains(node.as_str()));
            status.current_number_scheduled += is_created;
            status.updated_number_scheduled += is_created;
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

/// Whether the status has changed.
pub fn is_changed(before: &DaemonSetStatus, status: &DaemonSetStatus) -> bool {
    let observed_generation = before.observed_generation.max(status.observed_generation);
    before.observed_generation < status.observed_generation
        || DaemonSetStatus { observed_generation, ..before.clone() }
            != DaemonSetStatus { observed_generation, ..status.clone() }
}

/// How long until a ready pod becomes available, which no watch event announces. It may be a surge pod: the status does
/// not count it, but the old pod on its node is deleted then.
pub fn time_to_available(view: &View<'_>) -> Option<Duration> {
    let min_ready_seconds = view.set.spec.min_ready_seconds;
    let mut counted = view.daemon_nodes.values().filter(|on_node| on_node.exists && on_node.fit.should_run);
    let is_due = min_ready_seconds > 0
        && counted
            .any(|on_node| on_node.pods.first().is_some_and(|pod| pod.is_ready() && !view.is_available(pod)));
    let longest = is_due.then(|| Duration::from_secs(u64::try_from(min_ready_seconds).unwrap_or(0)));
    next_available(view.pods, min_ready_seconds, view.now).or(longest)
}
