//! The Recreate strategy: no pod of the new template before the last one of an old template has stopped.

use flyball_api::pod::{Phase, Pod};
use flyball_api::{Object, ReplicaSet};
use flyball_runtime::Waiting;

use super::decision::{Action, View, finish};
use super::fleet::{Fleet, replicas};
use super::new_replica_set::{ensure, revise};

/// The next step: all old sets down to nothing, then patience, then the new set up to full size.
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

/// What of the old template may still run: a set whose status counts pods, or a pod. A pod that is being deleted no
/// longer counts in its set's status, and yet holds its volumes and locks.
pub fn old_running(view: &View<'_>, fleet: &Fleet<'_>) -> Option<Waiting> {
    let set = fleet.old.iter().find(|set| set.status.replicas > 0);
    if let Some(set) = set {
        return Some(Waiting::on::<ReplicaSet>(&set.key(), "to have no pods"));
    }
    let is_new = |pod: &Pod| fleet.new.is_some_and(|new| pod.metadata.is_controlled_by(new.uid()));
    let pod = view.pods.iter().find(|pod| !is_new(pod) && may_run(pod))?;
    Some(Waiting::on::<Pod>(&pod.key(), "to stop"))
}

/// Whether the pod has not come to an end.
pub fn may_run(pod: &Pod) -> bool {
    !matches!(pod.status.phase, Phase::Failed | Phase::Succeeded)
}
