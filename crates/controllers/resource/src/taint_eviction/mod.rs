//! Ends pods whose devices have a `NoExecute` taint that their claims do not tolerate.
//!
//! - **Promise**: a pod on a node that uses a claim with such a device is deleted once the time that the claim tolerates is
//!   over, counted from when the taint was set, and is told why by its condition `DisruptionTarget`. One whose taint goes,
//!   or whose claim is no longer its own, stays. With `DRADeviceTaintRules` the taints of DeviceTaintRules count, too, and
//!   their status says how far it is.
//! - **Watches** Pods, ResourceClaims and ResourceSlices, and DeviceTaintRules if they count. **Writes** that condition,
//!   deletes pods, and writes the `status` of rules.
//! - Upstream: `pkg/controller/devicetainteviction`.

mod devices;
pub mod plan;
pub mod rules;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{DeviceTaintRule, ResourceClaim, ResourceSlice};
use flyball_runtime::{Context, StartError, Tasks};
use parking_lot::Mutex;

use self::devices::{CLAIMS_BY_DEVICE, Devices, SLICES_BY_POOL};
use self::triggers::World;
use crate::claim::triggers::PODS_BY_GROUP;

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("device-taint-eviction-controller");
    let (pods, claims) = (cx.informer::<Pod>(), cx.informer::<ResourceClaim>());
    let slices = cx.informer::<ResourceSlice>();
    let rules = cx.gates.enabled("DRADeviceTaintRules").then(|| cx.informer::<DeviceTaintRule>());
    let with_groups = cx.gates.enabled("DRAWorkloadResourceClaims");
    if with_groups {
        pods.index(&PODS_BY_GROUP);
    }
    claims.index(&CLAIMS_BY_DEVICE);
    slices.index(&SLICES_BY_POOL);
    let world = World {
        pods: pods.store().clone(),
        claims: claims.store().clone(),
        slices: slices.store().clone(),
        with_groups,
    };
    tasks.feed(&pods, &queue, triggers::pod_changed);
    let around = world.clone();
    tasks.feed(&claims, &queue, move |change| around.claim_changed(change));
    let around = world.clone();
    tasks.feed(&slices, &queue, move |change| around.slice_changed(change));
    if let Some(rules) = &rules {
        tasks.feed(rules, &queue, move |change| world.rule_changed(change));
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
        booked: Mutex::default(),
        ended: Mutex::default(),
        evicted: Mutex::default(),
    };
    tasks.workers(&queue, usize::try_from(workers).unwrap_or(1), Arc::new(controller));
    Ok(())
}
