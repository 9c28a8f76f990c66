//! The shell: look up, delete surplus Jobs, update the list of active Jobs, plan, execute, write the status.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::cron::Zone;
use flyball_api::{CronJob, Job, Key, Timestamp};
use flyball_cache::Informer;
use flyball_common::index::owned;
use flyball_runtime::events::ObjectRef;
use flyball_runtime::metrics::{Family, Histogram, Stability};
use flyball_runtime::{Context, Executor, Next, Outcome, Reconcile, SyncError};

use super::active::{Review, delist, review, with_times};
use super::history::{deletions, surplus};
use super::invariants;
use super::plan::{after_start, plan};
use super::status;
use super::template::job_name;

pub(super) const SKEW: Family = Family::histogram(
    "cronjob_controller_job_creation_skew_duration_seconds",
    Stability::Stable,
    &[],
    &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0],
    "Time between when a Job was due and when it was made.",
);

/// The delay after which failed deletions of surplus Jobs are retried.
const HISTORY_AGAIN: Duration = Duration::from_secs(60);

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
        let executor = self.cx.executor(key);
        let Some(read) = self.crons.store().get(key) else {
            executor.record_waiting(vec![]);
            return Ok(Next::Settled);
        };
        let executor = executor.about(ObjectRef::of(&*read));
        let mut jobs = owned(self.jobs.store(), &read.metadata.uid);
        jobs.sort_by(|one, two| one.metadata.name.cmp(&two.metadata.name));
        let mut cron = CronJob::clone(&read);

        let surplus = surplus(&read, &jobs);
        self.cx.judge(|| invariants::check_surplus(&read, &jobs, &surplus));
        if !surplus.is_empty() {
            // Surplus Jobs contain the times of starts and successes. A crash after their deletion would lose these.
            cron.status = with_times(&read, &jobs);
            executor.perform(status::write(&read, &cron.status, false)).await.result()?;
        }
        let deleted = executor.perform(deletions(&surplus)).await;
        deleted.done.iter().for_each(|done| delist(&mut cron.status, &done.tag.metadata.uid));

        let next = self.reconcile(&executor, &mut cron, &jobs).await;
        self.cx.judge(|| invariants::check_status(&read.status, &cron.status));
        let has_deleted = !deleted.done.is_empty();
        executor.perform(status::write(&read, &cron.status, has_deleted)).await.result()?;
        // The next start may be far away, or never come: the failed deletions are retried earlier.
        Ok(if deleted.is_ok() { next? } else { next?.within(HISTORY_AGAIN) })
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
        let looked_up = self.look_up(cron, &mut review).await;
        cron.status = review.status;
        executor.perform::<()>(review.events).await;
        looked_up?;

        let now = self.cx.clock.now();
        let planned = plan(cron, now, &self.local);
        self.cx.judge(|| invariants::check_plan(cron, now, &self.local, &planned));
        let next = planned.next();
        executor.record_waiting(planned.waiting);
        let outcome = executor.perform(planned.effects).await;
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
    async fn look_up(&self, cron: &CronJob, review: &mut Review<'_>) -> Result<(), SyncError> {
        let key = cron.metadata.key();
        for job in std::mem::take(&mut review.unlisted) {
            let doing = format!("reading CronJob {key} anew");
            let live: CronJob = self.cx.client.get(&key).await.map_err(SyncError::api(doing))?;
            review.settle_unlisted(job, &live.status);
        }
        for listed in std::mem::take(&mut review.missing) {
            let key = Key::new(listed.namespace.as_str(), listed.name.as_str());
            match self.cx.client.get::<Job>(&key).await {
                Ok(_) => {}
                Err(error) if error.is_not_found() => review.settle_missing(&listed),
                Err(error) => return Err(SyncError::api(format!("looking for Job {key}"))(error)),
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
