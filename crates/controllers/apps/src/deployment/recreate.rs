//! The Recreate strategy: no pod of the new template is created before the last pod of an old template has stopped. Pure.

use flyball_api::pod::{Phase, Pod};
use flyball_api::{Object, ReplicaSet};
use flyball_runtime::Waiting;

use super::decision::{Action, View, finish};
use super::fleet::{Fleet, replicas};
use super::new_replica_set::{ensure, revise};

/// The next step: scale all old sets to zero, then wait for their pods, then scale up the new set.
pub fn steps<'a>(view: &View<'a>, fleet: &Fleet<'a>) -> Vec<Action<'a>> {
    let mut actions: Vec<_> = revise(view, fleet).into_iter().collect();
    let down: Vec<_> =
        fleet.active_old().map(|set| Action::Scale { set, from: replicas(set), to: 0 }).collect();
    if !down.is_empty() {
        actions.extend(down);
        return actions;
    }
    if old_running(view, fleet).is_some() {
        return actions;
    }
    let desired = view.limits.desired;
    match fleet.new {
        None => actions = ensure(view, fleet),
        Some(set) if replicas(set) != desired => {
            actions.push(Action::Scale { set, from: replicas(set), to: desired });
        }
        Some(_) => {}
    }
    actions.extend(finish(view, fleet));
    actions
}

/// What may still run with an old template: a set whose status counts pods, or a pod. A terminating pod no longer counts
/// in the status of its set, but still holds its volumes and locks.
pub fn old_running(view: &View<'_>, fleet: &Fleet<'_>) -> Option<Waiting> {
    let set = fleet.old.iter().find(|set| set.status.replicas > 0);
    if let Some(set) = set {
        return Some(Waiting::on::<ReplicaSet>(&set.key(), "to have no pods"));
    }
    let is_new = |pod: &Pod| fleet.new.is_some_and(|new| pod.metadata.is_controlled_by(new.uid()));
    let pod = view.pods.iter().find(|pod| !is_new(pod) && may_run(pod))?;
    Some(Waiting::on::<Pod>(&pod.key(), "to stop"))
}

pub fn may_run(pod: &Pod) -> bool {
    !matches!(pod.status.phase, Phase::Failed | Phase::Succeeded)
}
