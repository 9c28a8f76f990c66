//! Maintains the pods of a StatefulSet, with stable names, ordinals and claims.
//!
//! - **Promise**: once `spec` stops changing, and pods become ready, there is exactly one pod for each
//!   ordinal, each with its own claims and with the revision that the update strategy requires. In an ordered set no
//!   pod is created, deleted or updated while one before it is not available. Claims have the owner references of the
//!   retention policy, so that the garbage collector deletes or keeps them.
//! - **Watches** StatefulSets, Pods, PersistentVolumeClaims and ControllerRevisions. **Writes** pods, claims (their
//!   creation and their owner references), revisions, and the whole `status` of its sets.
//! - **Beyond upstream**: with the annotation [`plan::REPLACE_STUCK_PODS`] an unready pod of an outdated revision
//!   does not block a rollout forever; the deletion of a claim triggers the set that waits for it.
//! - Upstream: `pkg/controller/statefulset`. What differs: the write barrier replaces expectations, and a pod is
//!   read live before it is repaired, as the cache holds only parts of it. A parallel set gets at most [`plan::BURST`] new
//!   pods in one sync, and its status is written after each; upstream holds all of them in memory, however many. If both
//!   a pod and the owners of its claims are refused, there is an event about each; upstream has one about the owners.
//!   A conflict while a pod is repaired causes no event.
//!   A finished pod of an old revision is deleted once in a sync, not also as an outdated one. `status.currentReplicas` is never
//!   below zero; upstream's is with pods of a third revision, and the server refuses it.

pub mod claims;
pub mod defaults;
pub mod history;
pub mod identity;
pub mod invariants;
pub mod manifests;
mod metrics;
pub mod plan;
pub mod pods;
pub mod retention;
pub mod sameness;
pub mod status;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;
pub mod view;

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{ControllerRevision, PersistentVolumeClaim, StatefulSet};
use flyball_common::index::by_controller;
use flyball_runtime::gates::Gate;
use flyball_runtime::{Context, StartError, Tasks};

/// The name of the controller, and the source of its events.
pub const NAME: &str = "statefulset-controller";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("statefulset");
    let (sets, pods) = (cx.informer::<StatefulSet>(), cx.informer::<Pod>());
    let (claims, revisions) = (cx.informer::<PersistentVolumeClaim>(), cx.informer::<ControllerRevision>());
    pods.index(&by_controller());
    revisions.index(&by_controller());
    tasks.needs(&revisions);
    tasks.feed(&sets, &queue, |change| [change.key()]);
    tasks.feed(&pods, &queue, {
        let sets = sets.clone();
        move |change| triggers::pod_changed(change, sets.store())
    });
    tasks.feed(&claims, &queue, {
        let sets = sets.clone();
        move |change| triggers::claim_gone(change, sets.store())
    });
    let workers = cx.config.stateful_set_controller.concurrent_stateful_set_syncs;
    let obeys_max_unavailable = cx.gates.enabled(Gate::MaxUnavailableStatefulSet);
    let by_meaning = cx.gates.enabled(Gate::StatefulSetSemanticRevisionComparison);
    let events = cx.events.with_source(NAME);
    let controller =
        sync::Controller { events, cx, sets, pods, claims, revisions, obeys_max_unavailable, by_meaning };
    tasks.workers(&queue, usize::try_from(workers).unwrap_or(1), Arc::new(controller));
    Ok(())
}
