//! Removes the tracking finalizer of pods that no Job will count. Pure.

use std::sync::Arc;

use flyball_api::Job;
use flyball_api::pod::Pod;
use flyball_cache::Store;
use flyball_runtime::{Effect, Plan};

use super::plan::release;
use super::triggers::resolve;
use super::view::{Features, has_finalizer};

/// Removes the tracking finalizer of orphaned pods.
pub(super) fn plan(pods: &[Arc<Pod>], jobs: &Store<Job>, features: Features) -> Plan {
    let lost = pods.iter().filter(|pod| has_finalizer(pod) && is_lost(pod, jobs, features));
    Plan::of([Effect::concurrent(lost.map(|pod| release(pod, "it has no Job that would count it")))])
}

/// Whether no Job that this controller manages will count the pod.
fn is_lost(pod: &Pod, jobs: &Store<Job>, features: Features) -> bool {
    let Some(owner) = pod.metadata.controller() else { return true };
    if owner.kind != "Job" || owner.api_version != "batch/v1" {
        return false;
    }
    let job = resolve(jobs, &pod.metadata.namespace, owner);
    job.is_none_or(|job| job.is_finished() && features.managed_elsewhere(&job).is_none())
}
