//! Says of every PodDisruptionBudget how many of its pods may be evicted now.
//!
//! - **Promise**: once a budget, its pods and their owners stop changing, `status` says how many pods there should
//!   be, how many must be and are healthy, and how many may go; the eviction API lets no more of them go. A budget
//!   that cannot be judged allows nothing and says why. A pod that was to be evicted and is still there after two
//!   minutes counts as healthy again, and loses its `DisruptionTarget` condition.
//! - **Watches** PodDisruptionBudgets, Pods, ReplicationControllers, ReplicaSets, Deployments and StatefulSets; owners
//!   of any other kind are asked for their scale. **Writes** the `status` of budgets and the `DisruptionTarget`
//!   condition of pods, nothing else.
//! - Upstream: `pkg/controller/disruption`. What differs: a budget is looked at again when an owner of its pods is
//!   scaled and when a pod leaves it, all budgets of a pod follow its changes and not only one, a status that says
//!   nothing new is not written, and a failure to reach the server is retried.

pub mod demand;
pub mod invariants;
mod owners;
pub mod plan;
mod pods;
mod scales;
mod selection;
pub mod stale;
pub mod status;
mod sync;
#[cfg(test)]
mod tests;
mod triggers;
mod wording;

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{
    Deployment, Key, PodDisruptionBudget, ReplicaSet, ReplicationController, Resource, StatefulSet,
};
use flyball_cache::Informer;
use flyball_common::labelled::PODS_BY_LABEL;
use flyball_common::moment::Moments;
use flyball_queue::Queue;
use flyball_runtime::{Context, StartError, Tasks, priority};

use self::owners::{Owners, Scaled};
use self::selection::BUDGETS_BY_SELECTOR;

/// Where its events come from: upstream's name for it is as old as that.
pub const EVENT_SOURCE: &str = "controllermanager";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let (queue, recheck) = (tasks.queue("disruption"), tasks.queue("disruption_recheck"));
    let noted = tasks.queue("stale_pod_disruption");
    let (budgets, pods) = (cx.informer::<PodDisruptionBudget>(), cx.informer::<Pod>());
    budgets.index(&BUDGETS_BY_SELECTOR);
    pods.index(&PODS_BY_LABEL);
    tasks.feed(&budgets, &queue, |change| [change.key()]);
    tasks.on(&pods, {
        let (queue, noted, budgets) = (queue.clone(), noted.clone(), budgets.clone());
        move |change| {
            let woken = triggers::pod_changed(change, budgets.store());
            woken.budgets.into_iter().for_each(|key| queue.add(key, priority(change.origin)));
            woken.pod.into_iter().for_each(|key| noted.add(key, priority(change.origin)));
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
    let keeper =
        pods::Keeper { cx: cx.clone(), events: events.clone(), pods: pods.clone(), budgets: budgets.clone() };
    let controller = sync::Controller {
        cx,
        events,
        budgets,
        pods,
        owners,
        scales,
        recheck: recheck.clone(),
        moments: Moments::default(),
    };
    tasks.workers(&queue, 1, Arc::new(controller));
    tasks.workers(&recheck, 1, Arc::new(sync::Recheck { queue }));
    tasks.workers(&noted, 1, Arc::new(keeper));
    Ok(())
}

/// Takes the cache of a kind that owns pods; its scale is news for the budgets of its pods.
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
