//! The shells: for a Job, look up, adopt and release pods, plan, execute, then write the status and remove finalizers in an order that
//! is safe against crashes; for pods without a Job (`orphans.rs`), look up, plan, execute.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::job::JobStatus;
use flyball_api::pod::Pod;
use flyball_api::{Job, Key, Object, PodGroup, Selector, Workload};
use flyball_cache::Informer;
use flyball_common::adoption::{adopt_and_release, selector_of};
use flyball_common::index::{owned, owned_or_orphaned};
use flyball_runtime::events::ObjectRef;
use flyball_runtime::{Context, Executed, Executor, Next, Plan, Reconcile, SyncError, Write};

use super::backoff::{Backoff, Backoffs};
use super::conclusion::conclude;
use super::gang::{self, Scheduling};
use super::plan::{plan, unknown_mode};
use super::status::{Report, report};
use super::tally::Tally;
use super::triggers::Orphans;
use super::verdict::verdict;
use super::view::{Features, TRACKING_FINALIZER, View, in_order};
use super::{invariants, metrics, orphans};

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) jobs: Arc<Informer<Job>>,
    pub(super) pods: Arc<Informer<Pod>>,
    /// If `WorkloadWithJob` is on.
    pub(super) gangs: Option<Gangs>,
    pub(super) features: Features,
    pub(super) backoffs: Backoffs,
}

/// Handles pods that have lost their Job.
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
        let plan = orphans::plan(&pods, self.jobs.store(), self.features);
        self.cx.executor(owner).execute(plan).await
    }
}

/// Workloads and PodGroups of gangs; watched only if the feature gate `WorkloadWithJob` is enabled.
pub(super) struct Gangs {
    pub(super) workloads: Arc<Informer<Workload>>,
    pub(super) groups: Arc<Informer<PodGroup>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let job = self.jobs.store().get(key).filter(|job| !job.is_finished());
        let Some(job) = job.filter(|job| self.features.managed_elsewhere(job).is_none()) else {
            self.backoffs.forget(key);
            return Ok(Next::Settled);
        };
        let executor = self.cx.executor(key).about(ObjectRef::of(&*job));
        if let Some(event) = unknown_mode(&job) {
            return executor.perform::<()>([event]).await.result().map(|()| Next::Settled);
        }
        let began = self.cx.clock.now();
        let mut action = "reconciling";
        let result = self.reconcile(&executor, &job, &mut action).await;
        let took = Duration::try_from(self.cx.clock.now().duration_since(began)).unwrap_or_default();
        metrics::synced(&self.cx.metrics, &job, action, took, result.is_err());
        result
    }
}

impl Controller {
    async fn reconcile(
        &self,
        executor: &Executor<'_>,
        job: &Job,
        action: &mut &'static str,
    ) -> Result<Next, SyncError> {
        let pods = self.claimed(job).await?;
        let group = match self.scheduling(job, !pods.is_empty()) {
            Some(Scheduling::CreateFirst(write)) => {
                return executor.perform([*write]).await.result().map(|()| Next::Settled);
            }
            Some(Scheduling::InGroup(group)) => Some(group),
            Some(Scheduling::WithoutGroup(reason)) => {
                tracing::debug!(job = %job.key(), reason, "creating pods without a PodGroup");
                None
            }
            None => None,
        };
        let view = View {
            job,
            pods: &pods,
            backoff: self.backoffs.of(job),
            group: group.as_deref(),
            features: self.features,
            now: self.cx.clock.now(),
        };
        let tally = Tally::of(&view);
        let end = verdict(&view, &tally);
        let (name, plan) = plan(&view, &tally, end.as_ref());
        *action = name;
        self.cx.judge(|| invariants::check_plan(&view, &tally, &plan));
        let Executed { next, outcome, .. } = executor.run(plan).await;
        metrics::created(&self.cx.metrics, &view, &tally, &outcome);
        let report = report(&view, &tally, end, &outcome);
        self.cx.judge(|| invariants::check_report(&view, &report));
        self.publish(executor, &view, tally.backoff, &report).await?;
        // A Job that has ended has no deadline.
        outcome.result().map(|()| if report.end.is_some() { Next::Settled } else { next })
    }

    /// How the pods of a gang are scheduled; `None` for other Jobs.
    fn scheduling(&self, job: &Job, has_pods: bool) -> Option<Scheduling> {
        let Gangs { workloads, groups } = self.gangs.as_ref().filter(|_| gang::is_gang(job))?;
        let workloads = workloads.store().by(&gang::BY_JOB, &job.key().to_string());
        let referencing =
            |workload: &Arc<Workload>| groups.store().by(&gang::BY_WORKLOAD, &workload.key().to_string());
        let groups: Vec<_> = workloads.iter().flat_map(referencing).collect();
        let view = gang::View { job, has_pods, workloads: &workloads, groups: &groups };
        let scheduling = gang::plan(&view);
        self.cx.judge(|| invariants::check_gang(&view, &scheduling));
        Some(scheduling)
    }

    async fn claimed(&self, job: &Job) -> Result<Vec<Arc<Pod>>, SyncError> {
        let key = job.metadata.key();
        let selector = selector_of(&key, Selector::from_object(job.spec.selector.as_ref()))?;
        let candidates = owned_or_orphaned(self.pods.store(), &key.namespace, &job.metadata.uid);
        adopt_and_release(&self.cx, job, &selector, candidates, &[TRACKING_FINALIZER]).await.map(in_order)
    }

    /// Writes the status, removes the finalizers of the pods that it counts, and writes the final status. In this order, a
    /// crash at any point leaves every pod either with its finalizer or with its uid in the status.
    async fn publish(
        &self,
        executor: &Executor<'_>,
        view: &View<'_>,
        backoff: Backoff,
        report: &Report<'_>,
    ) -> Result<(), SyncError> {
        let (job, key) = (view.job, view.job.metadata.key());
        match self.write(executor, job, report.write(job), (&job.status, &report.status)).await? {
            Some(Written::Gone) => return Ok(()),
            Some(Written::Done) => self.backoffs.keep(job, backoff),
            None => {}
        }
        metrics::handled(&self.cx.metrics, report);
        let released = executor.perform(report.releases()).await;
        let conclusion = conclude(view, report, &released);
        let write = conclusion.write(job, report);
        let written = self.write(executor, job, write, (&report.status, &conclusion.status)).await?;
        if let (Some(end), Some(Written::Done)) = (conclusion.end, written) {
            metrics::finished(&self.cx.metrics, job, end);
            self.backoffs.forget(&key);
            // A Job that has ended waits for nothing, and is not queued again.
            executor.execute(Plan::<()>::default()).await?;
        }
        released.result()
    }

    /// Writes a status, if there is one, and updates the metrics.
    async fn write(
        &self,
        executor: &Executor<'_>,
        job: &Job,
        write: Option<Write>,
        (before, after): (&JobStatus, &JobStatus),
    ) -> Result<Option<Written>, SyncError> {
        if write.is_none() {
            return Ok(None);
        }
        let outcome = executor.perform(write).await;
        let is_gone = outcome.ignored().next().is_some();
        outcome.result()?;
        if is_gone {
            return Ok(Some(Written::Gone));
        }
        metrics::counted(&self.cx.metrics, job, before, after);
        Ok(Some(Written::Done))
    }
}

/// The outcome of writing a status.
enum Written {
    Done,
    Gone,
}
