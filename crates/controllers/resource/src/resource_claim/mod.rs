//! Creates ResourceClaims for pods that request devices by a template, and deallocates devices that are no longer used.
//!
//! - **Promise**: a pod that has not ended has a ResourceClaim for each of its entries with a template, and its status lists
//!   them. A ResourceClaim is reserved for a pod that was assigned to a node without the scheduler. Reservations of consumers
//!   that are gone are removed, devices are deallocated with the last of them, and a ResourceClaim that was generated for a
//!   pod is deleted when the pod has ended. With `DRAWorkloadResourceClaims` the same holds for pod groups.
//! - **Watches** Pods, ResourceClaims, ResourceClaimTemplates, and PodGroups if the gate is on. **Writes** ResourceClaims,
//!   their `status` and their finalizer, and `status.resourceClaimStatuses` of pods and groups.
//! - Upstream: `pkg/controller/resourceclaim`. What differs: for a pod that has ended no ResourceClaim is created or reserved.
//!   Recording a ResourceClaim keeps the other entries of the status (upstream: kubernetes/kubernetes#138408, after 1.36.4).

pub mod consumer;
pub mod invariants;
mod memory;
mod metrics;
pub mod plan;
pub mod release;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Object, PodGroup, ResourceClaim, ResourceClaimTemplate};
use flyball_cache::Informer;
use flyball_common::index::by_controller;
use flyball_queue::Queue;
use flyball_runtime::gates::Gate;
use flyball_runtime::{Context, StartError, Tasks, priority};
use parking_lot::Mutex;

use self::consumer::had_ended;
use self::plan::Gates;
use self::triggers::{
    Consumers, GROUPS_BY_CLAIM, GROUPS_BY_TEMPLATE, PODS_BY_CLAIM, PODS_BY_GROUP, PODS_BY_TEMPLATE, Work,
};

/// The source of its events.
pub const EVENT_SOURCE: &str = "resource_claim";
/// The field manager of the status of pods and groups.
const FIELD_MANAGER: &str = "ResourceClaimController";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("resource_claim");
    let gates = Gates {
        admin_access: cx.gates.enabled(Gate::DRAAdminAccess),
        prioritized_list: cx.gates.enabled(Gate::DRAPrioritizedList),
        groups: cx.gates.enabled(Gate::DRAWorkloadResourceClaims),
    };
    let deleted = Arc::new(Mutex::new(memory::UntilRestore::<memory::Deleted>::default()));
    let generated = Arc::new(Mutex::new(memory::UntilRestore::<memory::Generated>::default()));
    let (pods, claims) = (cx.informer::<Pod>(), cx.informer::<ResourceClaim>());
    let templates = cx.informer::<ResourceClaimTemplate>();
    let groups = gates.groups.then(|| cx.informer::<PodGroup>());
    let sources = Sources { pods, groups, claims, templates };
    subscribe(&cx, tasks, &queue, &sources, (&deleted, &generated));
    let Sources { pods, groups, claims, templates } = sources;
    metrics::on_scrape(&cx.metrics, claims.store().clone());
    let workers = cx.config.resource_claim_controller.concurrent_syncs;
    let controller = sync::Controller {
        events: cx.events.with_source(EVENT_SOURCE),
        generated,
        cx,
        pods,
        groups,
        claims,
        templates,
        gates,
        deleted,
        misses: Default::default(),
    };
    tasks.workers(&queue, usize::try_from(workers).unwrap_or(1), Arc::new(controller));
    Ok(())
}

type DeletedConsumers = Arc<Mutex<memory::UntilRestore<memory::Deleted>>>;
type GeneratedClaims = Arc<Mutex<memory::UntilRestore<memory::Generated>>>;

/// The informers whose changes trigger syncs.
struct Sources {
    pods: Arc<Informer<Pod>>,
    groups: Option<Arc<Informer<PodGroup>>>,
    claims: Arc<Informer<ResourceClaim>>,
    templates: Arc<Informer<ResourceClaimTemplate>>,
}

/// Queues what changes trigger. Records consumers that were deleted, and that the cache shows a generated ResourceClaim.
fn subscribe(
    cx: &Context,
    tasks: &mut Tasks,
    queue: &Queue<Work>,
    Sources { pods, groups, claims, templates }: &Sources,
    (deleted, generated): (&DeletedConsumers, &GeneratedClaims),
) {
    pods.index(&PODS_BY_CLAIM);
    pods.index(&PODS_BY_TEMPLATE);
    claims.index(&by_controller());
    let consumers = Consumers {
        pods: pods.store().clone(),
        groups: groups.as_ref().map(|groups| groups.store().clone()),
    };
    tasks.on(pods, {
        let (queue, deleted, informers) = (queue.clone(), deleted.clone(), cx.informers.clone());
        move |change| {
            let work = triggers::pod_changed(change);
            if let (Some(pod), None, false) = (change.old, change.new, work.is_empty()) {
                deleted.lock().in_era(informers.era()).add(pod.uid().clone(), had_ended(pod));
            }
            work.into_iter().for_each(|work| queue.add(work, priority(change.origin)));
        }
    });
    if let Some(groups) = groups {
        pods.index(&PODS_BY_GROUP);
        groups.index(&GROUPS_BY_CLAIM);
        groups.index(&GROUPS_BY_TEMPLATE);
        let (queue, deleted, consumers) = (queue.clone(), deleted.clone(), consumers.clone());
        let informers = cx.informers.clone();
        tasks.on(groups, move |change| {
            if let (Some(group), None) = (change.old, change.new) {
                deleted.lock().in_era(informers.era()).add(group.uid().clone(), false);
            }
            let work = triggers::group_changed(change, &consumers);
            work.into_iter().for_each(|work| queue.add(work, priority(change.origin)));
        });
    }
    tasks.feed(claims, queue, {
        let (consumers, generated, informers) = (consumers.clone(), generated.clone(), cx.informers.clone());
        move |change| {
            if let Some(claim) = change.new {
                generated.lock().in_era(informers.era()).shown(claim.uid());
            }
            triggers::claim_changed(change, &consumers)
        }
    });
    tasks.feed(templates, queue, move |change| triggers::template_changed(change, &consumers));
}
