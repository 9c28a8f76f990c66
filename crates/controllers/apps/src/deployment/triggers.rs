//! Which Deployments a change of a ReplicaSet or of a pod concerns.

use flyball_api::pod::Pod;
use flyball_api::{Deployment, Key, Object, ReplicaSet, Selector, deployment};
use flyball_cache::{Change, Store};
use flyball_common::wake;

use super::recreate::may_run;

/// The Deployments to look at after a change of a ReplicaSet: its controller, the one it had before, and, for a
/// set without one, every Deployment that could adopt it.
pub fn set_changed(change: &Change<'_, ReplicaSet>, deployments: &Store<Deployment>) -> Vec<Key> {
    wake::owners(change, deployments, |deployment| {
        Selector::from_object(deployment.spec.selector.as_ref()).ok()
    })
}

/// The Deployment that may have waited for a pod to stop. Only the Recreate strategy waits for pods; whatever
/// else happens to them, their ReplicaSet's status tells.
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
