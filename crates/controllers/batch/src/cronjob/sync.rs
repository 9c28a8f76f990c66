//! The shell: look up, delete surplus Jobs, update the list of active Jobs, plan, execute, write the status.

use std::sync::Arc;

use flyball_api::cron::Zone;
use flyball_api::{CronJob, Job, Key, Timestamp};
use flyball_cache::Informer;
use flyball_common::index::owned;
use flyball_runtime::events::ObjectRef;
use flyball_runtime::metrics::{Family, Histogram, Stability};
use flyball_runtime::{Context, Executed, Executor, Next, Outcome, Reconcile, SyncError};

use super::active::{Need, Review, review};
use super::history::{self, clean_up, cleaned_up, surplus};
use super::invariants;
use super::plan::{after_start, plan};
use super::status;
use super::template::job_name;

pub(super) const SKEW: Family = Family::histogram(
    "cronjob_controller_job_creation_skew_duration_seconds",
    Stability::Stable,
    &[],
    &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0],
    "Time between when a cronjob is scheduled to be run, and when the corresponding job is created",
);

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) crons: Arc<Informer<CronJob>>,
    pub(super) jobs: Arc<Informer<Job>>,
    /// The time zone of schedules without one.
    pub(super) local: Zone,
    pub(super) skew: Histogram,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(read) = self.crons.store().get(key) else { return Ok(Next::Settled) };
        let executor = self.cx.executor(key).about(ObjectRef::of(&*read));
        let mut jobs = owned(self.jobs.store(), &read.metadata.uid);
        jobs.sort_by(|one, two| one.metadata.name.cmp(&two.metadata.name));
        let mut cron = CronJob::clone(&read);

        let surplus = surplus(&read, &jobs);
        self.cx.judge(|| invariants::check_surplus(&read, &jobs, &surplus));
        let outcome = executor.perform(clean_up(&read, &jobs, &surplus)).await;
        let Some(cleaned) = cleaned_up(&read, &jobs, &surplus, &outcome) else {
            return outcome.result().map(|()| Next::Settled);
        };
        cron.status = cleaned.status;

        let next = self.reconcile(&executor, &mut cron, &jobs).await;
        self.cx.judge(|| invariants::check_status(&read.status, &cron.status));
        executor.perform(status::write(&read, &cron.status, cleaned.has_deleted)).await.result()?;
        Ok(history::next(next?, cleaned.is_complete))
    }
}

impl Controller {
    /// Starts a Job if one is due. Updates the status of `cron`, also if something fails.
    async fn reconcile(
        &self,
        executor: &Executor<'_>,
        cron: &mut CronJob,
        jobs: &[Arc<Job>],
    ) -> Result<Next, SyncError> {
        let mut review = review(cron, jobs);
        let read = self.read_differences(cron, &mut review).await;
        cron.status = review.status;
        executor.emit(review.events);
        read?;

        let now = self.cx.clock.now();
        let planned = plan(cron, now, &self.local);
        self.cx.judge(|| invariants::check_plan(cron, now, &self.local, &planned));
        let Executed { next, outcome, .. } = executor.run(planned).await;
        cron.status = status::after(cron, &outcome);
        let created = self.observe_skew(&outcome);
        let existed = match status::existing(&outcome) {
            Some(start) => self.list_existing(cron, start).await?,
            None => false,
        };
        outcome.result()?;
        match created || existed {
            true => executor.execute(after_start(cron, self.cx.clock.now(), &self.local)).await,
            false => Ok(next),
        }
    }

    /// Reads the Jobs on which the list and the cache disagree from the server.
    async fn read_differences(&self, cron: &CronJob, review: &mut Review<'_>) -> Result<(), SyncError> {
        while let Some(need) = review.need() {
            match need {
                Need::CronJob => {
                    let key = cron.metadata.key();
                    let doing = format!("reading CronJob {key} anew");
                    let live: CronJob = self.cx.client.get(&key).await.map_err(SyncError::api(doing))?;
                    review.record_cron_job(&live.status);
                }
                Need::Job(key) => review.record_job(self.cx.find::<Job>(&key).await?.is_some()),
            }
        }
        Ok(())
    }

    /// Measures how late a Job was created, if one was.
    fn observe_skew(&self, outcome: &Outcome<Option<Timestamp>>) -> bool {
        let mut created = outcome.written().filter_map(|done| Some((done.tag?, done.answer.written()?)));
        let Some((start, job)) = created.next() else { return false };
        if let Some(created) = job.creation_timestamp {
            self.skew.observe(created.duration_since(start).as_secs_f64());
        }
        true
    }

    /// Adds an existing Job of a start to the list, if it is missing there.
    async fn list_existing(&self, cron: &mut CronJob, start: Timestamp) -> Result<bool, SyncError> {
        let key = Key::new(cron.metadata.namespace.as_str(), job_name(cron, start));
        let doing = format!("reading Job {key}");
        let job: Job = self.cx.client.get(&key).await.map_err(SyncError::api(doing))?;
        let Some(status) = status::with_existing(cron, &job, start) else { return Ok(false) };
        cron.status = status;
        Ok(true)
    }
}
