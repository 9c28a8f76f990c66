//! Runs pods until enough of them have succeeded.
//!
//! - **Promise**: a Job has as many active pods as its parallelism and its remaining completions require, at most one for
//!   each index; each pod that ends is counted exactly once, also after a crash ([`status`], [`conclusion`]); and the status
//!   of a Job that has succeeded or failed ([`verdict`]) shows it once all of its pods have ended.
//! - With `WorkloadWithJob`, a Job whose pods all run at once gets a Workload and a PodGroup, and its pods name the group
//!   ([`gang`]).
//! - **Watches** Jobs and Pods; Workloads and PodGroups if the gate is on. **Writes** pods (create, delete, owner reference,
//!   tracking finalizer) and the whole `status` of its Jobs, and creates Workloads and PodGroups; nothing else. A Job whose
//!   `managedBy` names another controller is left alone.
//! - Policies: [`failure_policy`], [`success_policy`], [`backoff`]; limits by index are in [`tally`].
//! - Upstream: `pkg/controller/job`. What differs: the write barrier replaces expectations of pods and of finalizers. In
//!   `job_pods_creation_total`, a failed creation is not also counted as succeeded. The Workload, the PodGroup and the pods
//!   of a Job are each created in a sync of their own, and a Job that is being deleted gets no Workload or PodGroup.
//!   `status.ready` counts a pod whose deletion was refused. If a success policy ends a Job, a pod that a user deleted just
//!   before does not count as failed: after a crash it could not be told from those that the controller deletes.

pub mod backoff;
pub mod conclusion;
pub mod failure_policy;
pub mod gang;
pub mod indexes;
pub mod invariants;
mod metrics;
mod orphans;
pub mod plan;
pub mod status;
pub mod success_policy;
mod sync;
pub mod tally;
pub mod template;
#[cfg(test)]
mod tests;
pub mod triggers;
pub mod verdict;
pub mod view;

use std::sync::Arc;
use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::{Job, PodGroup, Workload};
use flyball_cache::Origin;
use flyball_common::index::by_controller;
use flyball_queue::{Backoff, Queue};
use flyball_runtime::gates::Gate;
use flyball_runtime::{Context, StartError, Tasks, priority};

use triggers::{Orphans, Urgency};
use view::Features;

/// The name of the controller, and the source of its events.
pub const NAME: &str = "job-controller";

/// The value of `spec.managedBy` for this controller.
const OURS: &str = "kubernetes.io/job-controller";

/// The delay after a change of a pod, so that many changes need one sync.
const BATCH_PERIOD: Duration = Duration::from_secs(1);

/// The backoff of failed syncs, which is longer than in other controllers.
const RETRIES: Backoff =
    Backoff { base: Duration::from_secs(1), max: Duration::from_secs(60), rate: 0.0, burst: 0.0 };

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let features = Features::of(&cx.gates);
    let queue = tasks.queue_with("job", RETRIES);
    let orphans: Queue<Orphans> = tasks.queue_with("job_orphan_pod", RETRIES);
    let (jobs, pods) = (cx.informer::<Job>(), cx.informer::<Pod>());
    pods.index(&by_controller());
    tasks.on(&jobs, {
        let (queue, orphans, numbers) = (queue.clone(), orphans.clone(), cx.metrics.clone());
        move |change| {
            let (job, urgent) = (change.object(), priority(change.origin));
            match triggers::job_changed(change) {
                Urgency::Now => queue.add(change.key(), urgent),
                Urgency::Batched => queue.add_after(change.key(), BATCH_PERIOD),
                Urgency::Orphans => {}
            }
            if triggers::may_leave_orphans(change) {
                orphans.add(Orphans::OfJob(change.key(), job.metadata.uid.clone()), urgent);
            }
            if let (None, Some(controller)) = (change.old, features.managed_elsewhere(job)) {
                metrics::external(&numbers, controller);
            }
        }
    });
    tasks.on(&pods, {
        let (queue, orphans, jobs) = (queue.clone(), orphans.clone(), jobs.clone());
        let numbers = cx.metrics.clone();
        move |change| {
            let affected = triggers::pod_changed(change, jobs.store());
            for key in affected.jobs {
                queue.add_after(key, BATCH_PERIOD);
            }
            if let Some(orphan) = affected.orphan {
                orphans.add(orphan, priority(change.origin));
            }
            if change.origin != Origin::Resync {
                let counts = |pod: Option<&Arc<Pod>>| {
                    pod.is_some_and(|pod| pod.is_finished() && view::has_finalizer(pod))
                };
                metrics::tracked(&numbers, counts(change.old), counts(change.new));
            }
        }
    });
    let gangs = cx.gates.enabled(Gate::WorkloadWithJob).then(|| {
        let (workloads, groups) = (cx.informer::<Workload>(), cx.informer::<PodGroup>());
        workloads.index(&gang::BY_JOB);
        groups.index(&gang::BY_WORKLOAD);
        tasks.feed(&workloads, &queue, triggers::made_for_job);
        tasks.feed(&groups, &queue, triggers::made_for_job);
        sync::Gangs { workloads, groups }
    });
    let workers = usize::try_from(cx.config.job_controller.concurrent_job_syncs).unwrap_or(1);
    let releaser =
        sync::OrphanController { cx: cx.clone(), jobs: jobs.clone(), pods: pods.clone(), features };
    tasks.workers(&orphans, workers, Arc::new(releaser));
    let controller = sync::Controller { cx, jobs, pods, gangs, features, backoffs: Default::default() };
    tasks.workers(&queue, workers, Arc::new(controller));
    Ok(())
}
