//! Which Deployments to sync after a change of a ReplicaSet or a pod. Pure.

use flyball_api::pod::Pod;
use flyball_api::{Deployment, Key, Object, ReplicaSet, Selector, deployment};
use flyball_cache::{Change, Store};
use flyball_common::wake;

use super::recreate::may_run;

/// The controller of the ReplicaSet, its former controller, and, for a set without a controller, every Deployment that
/// could adopt it.
pub fn set_changed(change: &Change<'_, ReplicaSet>, deployments: &Store<Deployment>) -> Vec<Key> {
    wake::owners(change, deployments, |deployment| {
        Selector::from_object(deployment.spec.selector.as_ref()).ok()
    })
}

/// The Deployment that may wait for a pod to stop. Only the Recreate strategy waits for pods; all other changes of pods
/// show in the status of their ReplicaSet.
pub fn pod_changed(
    change: &Change<'_, Pod>,
    sets: &Store<ReplicaSet>,
    deployments: &Store<Deployment>,
) -> Option<Key> {
    let stopped = change.old.is_some_and(|pod| may_run(pod)) && !change.new.is_some_and(|pod| may_run(pod));
    let pod = change.old.filter(|_| stopped)?;
    let set = wake::controller(&pod.metadata, sets)?;
    let deployment = wake::controller(set.meta(), deployments)?;
    (deployment.spec.strategy.type_ == deployment::RECREATE).then(|| deployment.key())
}
