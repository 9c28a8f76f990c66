//! Computes how many pods of each PodDisruptionBudget may be evicted.
//!
//! - **Promise**: once a budget, its pods and their owners stop changing, `status` holds how many pods there should be,
//!   how many must be and are healthy, and how many disruptions the eviction API may allow. A budget whose status cannot
//!   be computed allows no disruption, and its condition states why. A pod that was evicted and is not deleted after two
//!   minutes counts as healthy again, and its `DisruptionTarget` condition is set to false.
//! - **Watches** PodDisruptionBudgets, Pods, ReplicationControllers, ReplicaSets, Deployments and StatefulSets; owners
//!   of any other kind are read by their `scale` subresource. **Writes** the `status` of budgets and the `DisruptionTarget`
//!   condition of pods, nothing else.
//! - Upstream: `pkg/controller/disruption`. What differs: a budget is also synced when an owner of its pods is scaled
//!   and when a pod leaves it, a change of a pod syncs all its budgets and not only one, an unchanged status is not
//!   written, and a failure to reach the server is retried.
//! - Besides `sync.rs`, `scales` is async: it reads `scale` subresources live.

pub mod census;
pub mod demand;
pub mod invariants;
mod messages;
mod owners;
pub mod plan;
mod scales;
mod selection;
pub mod stale;
pub mod status;
mod sync;
#[cfg(test)]
mod tests;
mod triggers;

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{
    Deployment, Key, PodDisruptionBudget, ReplicaSet, ReplicationController, Resource, StatefulSet,
};
use flyball_cache::Informer;
use flyball_common::informer_lag::Misses;
use flyball_common::labelled::PODS_BY_LABEL;
use flyball_queue::Queue;
use flyball_runtime::{Context, StartError, Tasks, priority};

use self::owners::{Owners, Scaled};
use self::selection::BUDGETS_BY_SELECTOR;

/// The source of its events, as upstream.
pub const EVENT_SOURCE: &str = "controllermanager";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let (queue, recheck) = (tasks.queue("disruption"), tasks.queue("disruption_recheck"));
    let pod_queue = tasks.queue("stale_pod_disruption");
    let (budgets, pods) = (cx.informer::<PodDisruptionBudget>(), cx.informer::<Pod>());
    budgets.index(&BUDGETS_BY_SELECTOR);
    pods.index(&PODS_BY_LABEL);
    tasks.feed(&budgets, &queue, |change| [change.key()]);
    tasks.on(&pods, {
        let (queue, pod_queue, budgets) = (queue.clone(), pod_queue.clone(), budgets.clone());
        move |change| {
            let concerned = triggers::pod_changed(change, budgets.store());
            concerned.budgets.into_iter().for_each(|key| queue.add(key, priority(change.origin)));
            concerned.pod.into_iter().for_each(|key| pod_queue.add(key, priority(change.origin)));
        }
    });
    let owners = Owners {
        replication_controllers: follow::<ReplicationController>(&cx, tasks, &queue, &budgets),
        replica_sets: follow::<ReplicaSet>(&cx, tasks, &queue, &budgets),
        deployments: follow::<Deployment>(&cx, tasks, &queue, &budgets),
        stateful_sets: follow::<StatefulSet>(&cx, tasks, &queue, &budgets),
    };
    let events = cx.events.with_source(EVENT_SOURCE);
    let scales = scales::Scales::new(cx.client.clone());
    let pod_controller = sync::PodController {
        cx: cx.clone(),
        events: events.clone(),
        pods: pods.clone(),
        budgets: budgets.clone(),
    };
    let controller = sync::Controller {
        cx,
        events,
        budgets,
        pods,
        owners,
        scales,
        recheck: recheck.clone(),
        delayed: Misses::default(),
    };
    tasks.workers(&queue, 1, Arc::new(controller));
    tasks.workers(&recheck, 1, Arc::new(sync::Recheck { queue }));
    tasks.workers(&pod_queue, 1, Arc::new(pod_controller));
    Ok(())
}

/// The cache of a kind that owns pods. A change of its scale syncs the budgets of its pods.
fn follow<T: Scaled + Resource>(
    cx: &Context,
    tasks: &mut Tasks,
    queue: &Queue<Key>,
    budgets: &Arc<Informer<PodDisruptionBudget>>,
) -> Arc<Informer<T>> {
    let informer = cx.informer::<T>();
    let (queue, budgets) = (queue.clone(), budgets.clone());
    tasks.on(&informer, move |change| {
        for key in triggers::owner_changed(change, budgets.store()) {
            queue.add(key, priority(change.origin));
        }
    });
    informer
}
