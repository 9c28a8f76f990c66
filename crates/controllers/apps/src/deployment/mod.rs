//! Rolls out the template of a Deployment by means of ReplicaSets.
//!
//! - **Promise**: once `spec` stops changing and pods become available, the ReplicaSet of the current template
//!   has `spec.replicas` pods, the others have none, and `status` reports it. During the rollout there are never more pods
//!   than `maxSurge` allows, and no available pod is deleted beyond `maxUnavailable`. Old ReplicaSets are kept up to
//!   `spec.revisionHistoryLimit`, each with its revision, for rollbacks.
//! - **Watches** Deployments, their ReplicaSets and, for the Recreate strategy, pods. **Writes** ReplicaSets
//!   (create, delete, owner reference, size, `minReadySeconds`, annotations), the whole `status` and the revision
//!   annotation of its Deployments; a Deployment's template only for a rollback.
//! - Upstream: `pkg/controller/deployment`. What differs: the status is written at most once per sync; a rollout
//!   that was complete is not synced repeatedly while one of its pods is not available; a ReplicaSet of the right
//!   size with wrong size annotations gets the right ones, and so does not block later rollouts; a scaled Deployment whose
//!   strategy became Recreate in the middle of a rollout goes on; a complete Deployment that returns to an earlier template
//!   and is scaled in one step reports the progress of that ReplicaSet; a ReplicaSet that has more pods than its share never
//!   grows while the Deployment is scaled down.

pub mod after;
pub mod annotations;
pub mod decision;
pub mod fleet;
pub mod history;
pub mod invariants;
pub mod limits;
pub mod new_replica_set;
pub mod plan;
pub mod progress;
pub mod proportional;
pub mod recreate;
pub mod rollback;
pub mod rollout;
pub mod status;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Deployment, ReplicaSet};
use flyball_common::index::by_controller;
use flyball_runtime::{Context, StartError, Tasks};

/// The name of the controller, and the source of its events.
pub const NAME: &str = "deployment-controller";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("deployment");
    let deployments = cx.informer::<Deployment>();
    let (sets, pods) = (cx.informer::<ReplicaSet>(), cx.informer::<Pod>());
    sets.index(&by_controller());
    pods.index(&by_controller());
    tasks.feed(&deployments, &queue, |change| [change.key()]);
    tasks.feed(&sets, &queue, {
        let deployments = deployments.clone();
        move |change| triggers::set_changed(change, deployments.store())
    });
    tasks.feed(&pods, &queue, {
        let (sets, deployments) = (sets.clone(), deployments.clone());
        move |change| triggers::pod_changed(change, sets.store(), deployments.store())
    });
    let workers = cx.config.deployment_controller.concurrent_deployment_syncs;
    let events = cx.events.with_source(NAME);
    let controller = sync::Controller { events, cx, deployments, sets, pods };
    tasks.workers(&queue, usize::try_from(workers).unwrap_or(1), Arc::new(controller));
    Ok(())
}
