//! Keeps as many pods running as a ReplicaSet asks for.
//!
//! - **Promise**: once `spec` stops changing, the number of active pods that the set controls is
//!   `spec.replicas`, and `status` says so. Pods that match and have no controller are adopted, pods that no
//!   longer match are let go, and surplus ones go in the order of [`flyball_common::spare`].
//! - **Watches** ReplicaSets and Pods. **Writes** pods (create, delete, owner reference) and the whole
//!   `status` of its ReplicaSets, nothing else.
//! - Upstream: `pkg/controller/replicaset`. What differs: the write barrier stands for expectations.
//!
//! The core is generic over [`Replicated`]: the `replicationcontroller` module next door is the other user.

pub mod ages;
pub mod invariants;
pub mod plan;
pub mod status;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::replica_set::ReplicaSetStatus;
use flyball_api::selector::{InvalidSelector, Selector};
use flyball_api::{PodTemplate, ReplicaSet, Resource};
use flyball_common::index::by_controller;
use flyball_runtime::{Context, StartError, Tasks};

/// The name under which the controller runs and tells events.
pub const NAME: &str = "replicaset-controller";

/// A kind that wants a number of equal pods.
pub trait Replicated: Resource {
    /// Where its events come from.
    const EVENT_SOURCE: &'static str;
    /// Whether its status has room for the number of pods that are being deleted.
    const COUNTS_TERMINATING: bool;

    fn selector(&self) -> Result<Selector, InvalidSelector>;
    fn replicas(&self) -> usize;
    /// How long a pod must be ready to count as available.
    fn min_ready_seconds(&self) -> i32;
    /// How to make one; `None` when the object has no template (the server would not have taken it).
    fn template(&self) -> Option<&PodTemplate>;
    /// What was last said about it.
    fn status(&self) -> &ReplicaSetStatus;
}

impl Replicated for ReplicaSet {
    const EVENT_SOURCE: &'static str = NAME;
    const COUNTS_TERMINATING: bool = true;

    fn selector(&self) -> Result<Selector, InvalidSelector> {
        Selector::from_object(self.spec.selector.as_ref())
    }

    fn replicas(&self) -> usize {
        usize::try_from(self.spec.replicas.unwrap_or(1)).unwrap_or(0)
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec.min_ready_seconds
    }

    fn template(&self) -> Option<&PodTemplate> {
        Some(&self.spec.template)
    }

    fn status(&self) -> &ReplicaSetStatus {
        &self.status
    }
}

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let workers = cx.config.replica_set_controller.concurrent_rs_syncs;
    start_for::<ReplicaSet>(cx, tasks, "replicaset", workers)
}

/// Sets up the controller of a replicated kind, with the queue name that its metrics have.
pub(crate) fn start_for<T: Replicated>(
    cx: Arc<Context>,
    tasks: &mut Tasks,
    queue_name: &'static str,
    workers: i32,
) -> Result<(), StartError> {
    let queue = tasks.queue(queue_name);
    let (sets, pods) = (cx.informer::<T>(), cx.informer::<Pod>());
    sets.index(&by_controller());
    pods.index(&by_controller());
    tasks.feed(&sets, &queue, |change| [change.key()]);
    tasks.feed(&pods, &queue, {
        let sets = sets.clone();
        move |change| triggers::pod_changed(change, sets.store())
    });
    let counts_terminating =
        T::COUNTS_TERMINATING && cx.gates.enabled("DeploymentReplicaSetTerminatingReplicas");
    let events = cx.events.with_source(T::EVENT_SOURCE);
    let ages = cx.metrics.histogram(&ages::AGE_RATIO, &[]);
    let controller = sync::Controller { events, cx, sets, pods, counts_terminating, ages };
    tasks.workers(&queue, usize::try_from(workers).unwrap_or(1), Arc::new(controller));
    Ok(())
}
