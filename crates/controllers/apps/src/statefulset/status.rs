//! The status of a set. Pure.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::stateful_set::StatefulSetStatus;
use flyball_api::{ControllerRevision, StatefulSet};
use flyball_common::pods::next_available;
use flyball_common::revisions;
use flyball_runtime::plan::Group;
use flyball_runtime::{Effect, Outcome, Write};

use super::identity;
use super::plan::{Why, outdated};
use super::view::{Roster, View, is_running_and_ready};

/// What follows on the plan for the pods, also if a write failed: the status, then the deletion of `obsolete` revisions.
pub fn after(
    view: &View<'_>,
    outcome: &Outcome<Option<Why>>,
    obsolete: &[&Arc<ControllerRevision>],
) -> Group {
    let status = write(view.set, &status(view, outdated(outcome)));
    let trim = Effect::from(Effect::sequence(revisions::trim(obsolete.iter().copied())));
    Effect::each(status.map(Effect::from).into_iter().chain([trim]))
}

/// The write of `status`, if it has changed.
pub fn write(set: &StatefulSet, status: &StatefulSetStatus) -> Option<Write> {
    let StatefulSetStatus { replicas, ready_replicas: ready, updated_replicas: updated, .. } = status;
    let why = || format!("{replicas} pods, {ready} ready, {updated} updated");
    is_changed(set, status).then(|| Write::status(set, status).why(why()))
}

/// The status after a sync: the counts before its writes, as the cache shows their effect only later, except for the
/// `outdated` pods that it deleted.
pub fn status(view: &View<'_>, outdated: i32) -> StatefulSetStatus {
    let pods = counted(view);
    let count = |wanted: &dyn Fn(&Pod) -> bool| number(pods.iter().filter(|pod| wanted(pod)).count());
    let of_revision =
        |revision: &str| count(&|pod| !pod.metadata.is_deleting() && identity::revision(pod) == revision);
    let status = StatefulSetStatus {
        observed_generation: view.set.metadata.generation,
        replicas: number(pods.len()),
        ready_replicas: count(&is_running_and_ready),
        available_replicas: count(&|pod| is_running_and_ready(pod) && view.is_available(pod)),
        current_replicas: (of_revision(view.current()) - outdated).max(0),
        updated_replicas: of_revision(view.update()),
        current_revision: view.current().into(),
        update_revision: view.update().into(),
        collision_count: Some(view.revisions.collisions),
        // Upstream: updateStatefulSet: starts from an empty status, so each write removes conditions of other controllers.
        conditions: vec![],
    };
    completed(view, status)
}

/// The pods that the status counts.
fn counted<'a>(view: &View<'a>) -> Vec<&'a Pod> {
    if view.set.metadata.is_deleting() {
        return view.pods.iter().map(|pod| &**pod).collect();
    }
    let roster = Roster::of(view);
    roster.replicas.into_values().chain(roster.condemned.into_values()).collect()
}

/// How long until a ready pod becomes available, which no watch event announces.
pub fn time_to_available(view: &View<'_>) -> Option<Duration> {
    let min_ready_seconds = view.set.spec.min_ready_seconds;
    let is_on_its_way = |pod: &&Pod| is_running_and_ready(pod) && !view.is_available(pod);
    let is_due = min_ready_seconds > 0 && counted(view).iter().any(is_on_its_way);
    let longest = Duration::from_secs(u64::try_from(min_ready_seconds).unwrap_or(0));
    is_due.then(|| next_available(view.pods, min_ready_seconds, view.now).unwrap_or(longest))
}

/// Makes the update revision the current one, once all pods have it and are ready.
fn completed(view: &View<'_>, mut status: StatefulSetStatus) -> StatefulSetStatus {
    let wanted = view.wanted();
    let counts = [status.updated_replicas, status.ready_replicas, status.replicas];
    if view.is_rolling() && counts.iter().all(|count| *count == wanted) {
        status.current_replicas = status.updated_replicas;
        status.current_revision = status.update_revision.clone();
    }
    status
}

/// Whether the status has changed. The collision count and conditions alone do not matter.
pub fn is_changed(set: &StatefulSet, status: &StatefulSetStatus) -> bool {
    let old = &set.status;
    let said = StatefulSetStatus {
        observed_generation: status.observed_generation,
        collision_count: status.collision_count,
        conditions: status.conditions.clone(),
        ..old.clone()
    };
    status.observed_generation > old.observed_generation || said != *status
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
