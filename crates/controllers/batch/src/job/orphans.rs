//! Removes the tracking finalizer of pods that no Job will count.

use std::sync::Arc;

use flyball_api::Job;
use flyball_api::pod::Pod;
use flyball_cache::{Informer, Store};
use flyball_common::index::owned;
use flyball_runtime::{Context, Effect, Next, Plan, Reconcile, SyncError};

use super::plan::release;
use super::triggers::{Orphans, resolve};
use super::view::{Features, has_finalizer};

pub(super) struct OrphanController {
    pub(super) cx: Arc<Context>,
    pub(super) jobs: Arc<Informer<Job>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) features: Features,
}

impl Reconcile<Orphans> for OrphanController {
    async fn sync(&self, orphans: &Orphans) -> Result<Next, SyncError> {
        let (owner, pods) = match orphans {
            Orphans::Pod(key) => (key, self.pods.store().get(key).into_iter().collect()),
            Orphans::OfJob(key, uid) => (key, owned(self.pods.store(), uid)),
        };
        let plan = plan(&pods, self.jobs.store(), self.features);
        self.cx.executor(owner).perform(plan.effects).await.result().map(|()| Next::Settled)
    }
}

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
