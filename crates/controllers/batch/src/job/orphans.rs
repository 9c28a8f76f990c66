//! Frees pods whose tracking finalizer no Job will remove any more.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Job, Key, PartialObject, Resource};
use flyball_cache::{Informer, Store};
use flyball_client::Patch;
use flyball_common::gather::gather;
use flyball_common::index::owned;
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use serde_json::json;

use super::managed_elsewhere;
use super::triggers::{Orphans, resolve};
use super::view::{TRACKING_FINALIZER, has_finalizer};

/// The part of the controller that looks after pods without a Job.
pub(super) struct Liberator {
    pub(super) cx: Arc<Context>,
    pub(super) jobs: Arc<Informer<Job>>,
    pub(super) pods: Arc<Informer<Pod>>,
}

impl Reconcile<Orphans> for Liberator {
    async fn sync(&self, orphans: &Orphans) -> Result<Next, SyncError> {
        let (owner, pods) = match orphans {
            Orphans::Pod(key) => (key, self.pods.store().get(key).into_iter().collect()),
            Orphans::OfJob(key, uid) => (key, owned(self.pods.store(), uid)),
        };
        let lost = pods.iter().filter(|pod| has_finalizer(pod) && is_lost(pod, self.jobs.store()));
        let why = "it has no Job that would count it";
        let freed = gather(lost.map(|pod| release(&self.cx, owner, pod, why))).await;
        let freed: Result<Vec<()>, SyncError> = freed.into_iter().collect();
        freed.map(|_| Next::Settled)
    }
}

/// Whether no Job of ours will count this pod.
pub(super) fn is_lost(pod: &Pod, jobs: &Store<Job>) -> bool {
    let Some(owner) = pod.metadata.controller() else { return true };
    if owner.kind != "Job" || owner.api_version != "batch/v1" {
        return false;
    }
    let job = resolve(jobs, &pod.metadata.namespace, owner);
    job.is_none_or(|job| job.is_finished() && managed_elsewhere(&job).is_none())
}

/// Removes the tracking finalizer of a pod. One that is gone needs no more freeing; where another pod has taken its
/// name, the server says so by a conflict, and the cache will, too.
pub(super) async fn release(cx: &Context, owner: &Key, pod: &Pod, why: &str) -> Result<(), SyncError> {
    let meta = &pod.metadata;
    let patch = json!({"metadata": {
        "uid": meta.uid, "$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER],
    }});
    let (key, patch) = (meta.key(), Patch::Strategic(patch));
    match cx.writer(owner).patch_dynamic(&Pod::TYPE, &key, None, patch, why).await {
        Ok(PartialObject { .. }) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(SyncError::api(format!("removing the finalizer of pod {key}"))(error)),
    }
}
