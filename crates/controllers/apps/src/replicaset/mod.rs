//! Maintains the number of pods that a ReplicaSet specifies.
//!
//! - **Promise**: once `spec` stops changing, the number of active pods that the set controls is
//!   `spec.replicas`, and `status` reports it. Matching pods without a controller are adopted, pods that no longer
//!   match are released, and surplus pods are deleted in the order of [`flyball_common::spare`].
//! - **Watches** ReplicaSets and Pods. **Writes** pods (create, delete, owner reference) and the whole
//!   `status` of its ReplicaSets, nothing else.
//! - Upstream: `pkg/controller/replicaset`. What differs: the write barrier replaces expectations.
//!
//! The core is generic over [`Replicated`]; the `replicationcontroller` module uses it, too.

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
use flyball_runtime::gates::Gate;
use flyball_runtime::{Context, StartError, Tasks};

/// The name of the controller, and the source of its events.
pub const NAME: &str = "replicaset-controller";

/// A kind that specifies a number of equal pods.
pub trait Replicated: Resource {
    /// The source of its events.
    const EVENT_SOURCE: &'static str;
    /// Whether its status has a field for the number of terminating pods.
    const COUNTS_TERMINATING: bool;
    /// Whether pods that share a node with pods of the same owner's other sets are deleted first.
    const SPREADS_OVER_NODES: bool;

    fn selector(&self) -> Result<Selector, InvalidSelector>;
    fn replicas(&self) -> usize;
    /// How long a pod must be ready to count as available.
    fn min_ready_seconds(&self) -> i32;
    /// The pod template. The server accepts no object without one.
    fn template(&self) -> Option<&PodTemplate>;
    fn status(&self) -> &ReplicaSetStatus;
}

impl Replicated for ReplicaSet {
    const EVENT_SOURCE: &'static str = NAME;
    const COUNTS_TERMINATING: bool = true;
    const SPREADS_OVER_NODES: bool = true;

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

/// Sets up the controller of a replicated kind. The metrics of the queue have `queue_name`.
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
        T::COUNTS_TERMINATING && cx.gates.enabled(Gate::DeploymentReplicaSetTerminatingReplicas);
    let has_costs = cx.gates.enabled(Gate::PodDeletionCost);
    let events = cx.events.with_source(T::EVENT_SOURCE);
    let ages = cx.metrics.histogram(&ages::AGE_RATIO, &[]);
    let controller = sync::Controller { events, cx, sets, pods, counts_terminating, has_costs, ages };
    tasks.workers(&queue, usize::try_from(workers).unwrap_or(1), Arc::new(controller));
    Ok(())
}
