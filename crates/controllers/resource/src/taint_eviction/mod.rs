//! Evicts pods whose devices have a `NoExecute` taint that their ResourceClaims do not tolerate.
//!
//! - **Promise**: a pod on a node that uses such a ResourceClaim is deleted once the toleration period has passed since the
//!   taint was added. Before that, its condition `DisruptionTarget` is set. The eviction is cancelled if the taint is removed
//!   or the ResourceClaim is no longer reserved for the pod. With `DRADeviceTaintRules` the taints of DeviceTaintRules count
//!   as well, and the status of the rules shows the progress.
//! - **Watches** Pods, ResourceClaims and ResourceSlices, and DeviceTaintRules if the gate is on. **Writes** that condition,
//!   deletes pods, and writes the `status` of rules.
//! - Upstream: `pkg/controller/devicetainteviction`. What differs: a pod that a user has already deleted is not counted as
//!   evicted, in the status of rules or in metrics (upstream counts it if its eviction becomes due); a pod that was evicted and is
//!   not gone gets no event that its deletion is cancelled (upstream: if other taints came before all were removed).
//! - **Files**: [`plan`] decides about a pod, [`rules`] about the status of a rule; [`evictions`] is the memory of both.

mod devices;
pub mod evictions;
pub mod invariants;
pub mod plan;
pub mod rules;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{DeviceTaintRule, ResourceClaim, ResourceSlice};
use flyball_runtime::gates::Gate;
use flyball_runtime::{Context, StartError, Tasks};
use parking_lot::Mutex;

use self::devices::{CLAIMS_BY_DEVICE, Devices, SLICES_BY_POOL};
use self::triggers::Stores;
use crate::resource_claim::triggers::PODS_BY_GROUP;

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("device-taint-eviction-controller");
    let (pods, claims) = (cx.informer::<Pod>(), cx.informer::<ResourceClaim>());
    let slices = cx.informer::<ResourceSlice>();
    let rules = cx.gates.enabled(Gate::DRADeviceTaintRules).then(|| cx.informer::<DeviceTaintRule>());
    let with_groups = cx.gates.enabled(Gate::DRAWorkloadResourceClaims);
    if with_groups {
        pods.index(&PODS_BY_GROUP);
    }
    claims.index(&CLAIMS_BY_DEVICE);
    slices.index(&SLICES_BY_POOL);
    let stores = Stores {
        pods: pods.store().clone(),
        claims: claims.store().clone(),
        slices: slices.store().clone(),
        with_groups,
    };
    tasks.feed(&pods, &queue, triggers::pod_changed);
    let known = stores.clone();
    tasks.feed(&claims, &queue, move |change| known.claim_changed(change));
    let known = stores.clone();
    tasks.feed(&slices, &queue, move |change| known.slice_changed(change));
    if let Some(rules) = &rules {
        tasks.feed(rules, &queue, move |change| stores.rule_changed(change));
    }
    let workers = cx.config.device_taint_eviction_controller.concurrent_syncs;
    cx.metrics.show(&[&sync::DELETIONS, &sync::LATENCY]);
    let controller = sync::Controller {
        cx,
        pods,
        claims,
        devices: Devices { slices, rules },
        with_groups,
        queue: queue.clone(),
        evictions: Mutex::default(),
    };
    tasks.workers(&queue, usize::try_from(workers).unwrap_or(1), Arc::new(controller));
    Ok(())
}
