//! Keeps a claim from being deleted while a pod uses it.
//!
//! - **Promise**: every claim has the finalizer. One that is being deleted loses it as soon as no pod on a node uses it,
//!   neither in the cache nor in a list from the server that is not older than the claim.
//! - **Watches** claims and pods. **Writes** its finalizer and, with the gate `PersistentVolumeClaimUnusedSinceTime`, the
//!   condition `Unused` of claims.
//! - **A live read decides**: pods are listed from the server before the finalizer is removed, as the cache may lack one.
//! - **Files**: the status is one condition in [`plan`]; the simulator has the rule.
//! - Upstream: `pkg/controller/volume/pvcprotection`. What differs: a list of pods serves every claim that is not newer
//!   than it, so that many claims of one namespace cost few lists; the condition follows the cache alone, as a pod that
//!   appears later brings its claims back.

pub mod invariants;
pub mod plan;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::PersistentVolumeClaim;
use flyball_api::pod::Pod;
use flyball_runtime::gates::Gate;
use flyball_runtime::{Context, StartError, Tasks};
use parking_lot::Mutex;

use crate::usage::BY_CLAIM;

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("pvcprotection");
    let (claims, pods) = (cx.informer::<PersistentVolumeClaim>(), cx.informer::<Pod>());
    pods.index(&BY_CLAIM);
    let reports_unused = cx.gates.enabled(Gate::PersistentVolumeClaimUnusedSinceTime);
    tasks.feed(&claims, &queue, move |change| triggers::claim_changed(change, reports_unused));
    tasks.feed(&pods, &queue, move |change| triggers::pod_changed(change, reports_unused));
    let controller = sync::Controller { cx, claims, pods, reports_unused, listed: Mutex::default() };
    tasks.workers(&queue, 1, Arc::new(controller));
    Ok(())
}
