//! The shell: look up, clear up, plan, start, write the status.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::cron_job::CronJobStatus;
use flyball_api::object_reference::ObjectReference;
use flyball_api::{CronJob, Job, Key, ObjectMeta, Timestamp, manifest_with_status};
use flyball_cache::Informer;
use flyball_client::Propagation;
use flyball_common::index::owned;
use flyball_common::pods::is_namespace_going;
use flyball_runtime::events::ObjectRef;
use flyball_runtime::metrics::{Family, Histogram, Stability};
use flyball_runtime::{Context, Next, Reconcile, SyncError, exactly};

use super::active::{delist, entry, is_listed, review, times_noted};
use super::history::surplus;
use super::missed::wait;
use super::plan::{Decision, Notice, plan, schedule};
use super::template;
use super::zone::Zone;

pub(super) const SKEW: Family = Family::histogram(
    "cronjob_controller_job_creation_skew_duration_seconds",
    Stability::Stable,
    &[],
    &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0],
    "Time between when a Job was due and when it was made.",
);

/// When Jobs beyond the history limits that could not be deleted are tried again.
const HISTORY_AGAIN: Duration = Duration::from_secs(60);

/// The controller of CronJobs.
pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) crons: Arc<Informer<CronJob>>,
    pub(super) jobs: Arc<Informer<Job>>,
    /// The zone of schedules that name none.
    pub(super) local: Zone,
    /// How late Jobs are made.
    pub(super) skew: Histogram,
}

/// A CronJob in hand. Its status changes on the way, and is written once at the end.
struct Case {
    cron: CronJob,
    key: Key,
    about: ObjectRef,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(read) = self.crons.store().get(key) else { return Ok(Next::Settled) };
        let mut jobs = owned(self.jobs.store(), &read.metadata.uid);
        jobs.sort_by(|one, two| one.metadata.name.cmp(&two.metadata.name));
        let mut case = Case { about: ObjectRef::of(&*read), key: key.clone(), cron: CronJob::clone(&read) };
        let surplus = surplus(&read, &jobs);
        if !surplus.is_empty() {
            self.note_times(&mut case, &jobs).await?;
        }
        let (mut gone, mut left) = (0, 0);
        for job in surplus {
            // One that cannot be deleted is told of, and keeps nothing else from being done.
            match self.delete(&mut case, job, "more Jobs have ended than are to be kept").await {
                Ok(()) => gone += 1,
                Err(_) => left += 1,
            }
        }
        let next = self.reconcile(&mut case, &jobs).await;
        // Upstream: cronjob_controllerv2.go, sync: after a deletion the status is written, changed or not.
        if case.cron.status != read.status || gone > 0 {
            self.write_status(&case).await?;
        }
        // The next start may be far away, or never: the rest of the history does not wait for it.
        Ok(if left == 0 { next? } else { next?.within(HISTORY_AGAIN) })
    }
}

impl Controller {
    /// Notes when Jobs were started and when they succeeded, before those go that say so: a crash after that could
    /// not make up for it.
    async fn note_times(&self, case: &mut Case, jobs: &[Arc<Job>]) -> Result<(), SyncError> {
        let noted = times_noted(&case.cron, jobs);
        if noted != case.cron.status {
            case.cron.status = noted;
            case.cron.metadata = self.write_status(case).await?;
        }
        Ok(())
    }

    async fn reconcile(&self, case: &mut Case, jobs: &[Arc<Job>]) -> Result<Next, SyncError> {
        let review = review(&case.cron, jobs);
        case.cron.status = review.status;
        self.tell(case, review.notices);
        for job in review.unlisted {
            self.find_in_list(case, job).await?;
        }
        for listed in review.missing {
            self.find_on_server(case, &listed).await?;
        }
        let now = self.cx.clock.now();
        let (decision, notices) = plan(&case.cron, now, &self.local);
        self.tell(case, notices);
        match decision {
            Decision::Rest => Ok(Next::Settled),
            Decision::Wait(delay) => Ok(Next::After(delay)),
            Decision::Start(start) => self.start(case, start).await,
        }
    }

    /// A Job at work that the list lacks: the list may be newer on the server; else it is told of.
    async fn find_in_list(&self, case: &mut Case, job: &Job) -> Result<(), SyncError> {
        let doing = || format!("reading CronJob {} anew", case.key);
        let fresh: CronJob = self.cx.client.get(&case.key).await.map_err(SyncError::api(doing()))?;
        if is_listed(&fresh.status, &job.metadata.uid) {
            case.cron.status.active.push(entry(job));
            return Ok(());
        }
        let message =
            format!("Saw a job that the controller did not create or forgot: {}", job.metadata.name);
        self.tell(case, vec![Notice::warning("UnexpectedJob", message)]);
        Ok(())
    }

    /// A listed Job that the cache lacks: it leaves the list if the server lacks it, too.
    async fn find_on_server(&self, case: &mut Case, listed: &ObjectReference) -> Result<(), SyncError> {
        let key = Key::new(listed.namespace.as_str(), listed.name.as_str());
        match self.cx.client.get::<Job>(&key).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => {
                let message = format!("Active job went missing: {}", listed.name);
                self.tell(case, vec![Notice::normal("MissingJob", message)]);
                delist(&mut case.cron.status, &listed.uid);
                Ok(())
            }
            Err(error) => Err(SyncError::api(format!("looking for Job {key}"))(error)),
        }
    }

    /// Makes the Job of a start, in place of those that run if they are to give way.
    async fn start(&self, case: &mut Case, start: Timestamp) -> Result<Next, SyncError> {
        if case.cron.spec.concurrency_policy == "Replace" {
            self.replace(case).await?;
        }
        let body = template::job(&case.cron, start, &self.local)
            .map_err(|error| SyncError::other(format!("making a Job for {}", case.key), error).never())?;
        let why = format!("a start is due at {start}");
        let made = self.cx.writer(&case.key).create::<Job>(&case.key.namespace, &body, why).await;
        let job = match made {
            Ok(job) => {
                if let Some(created) = job.metadata.creation_timestamp {
                    self.skew.observe(created.duration_since(start).as_secs_f64());
                }
                let message = format!("Created job {}", job.metadata.name);
                self.tell(case, vec![Notice::normal("SuccessfulCreate", message)]);
                job
            }
            // Nothing can be made there any more, and the CronJob will go as well.
            Err(error) if is_namespace_going(&error) => return Ok(Next::Settled),
            Err(error) if error.is_already_exists() => match self.forgotten(case, start).await? {
                Some(job) => job,
                None => return Ok(Next::Settled),
            },
            Err(error) => {
                let message = format!("Error creating job: {error}");
                self.tell(case, vec![Notice::warning("FailedCreate", message)]);
                return Err(SyncError::api(format!("starting a Job for {}", case.key))(error));
            }
        };
        case.cron.status.active.push(entry(&job));
        case.cron.status.last_schedule_time = Some(start);
        let now = self.cx.clock.now();
        Ok(schedule(&case.cron, &self.local)
            .map_or(Next::Settled, |schedule| Next::After(wait(&case.cron, &schedule, now))))
    }

    /// A Job of this start that is there already: ours, if we crashed before we could note it.
    async fn forgotten(&self, case: &Case, start: Timestamp) -> Result<Option<Job>, SyncError> {
        let name = template::job_name(&case.cron, start);
        let key = Key::new(case.key.namespace.as_str(), name.as_str());
        let doing = || format!("reading Job {key}");
        let job: Job = self.cx.client.get(&key).await.map_err(SyncError::api(doing()))?;
        let ours = job.metadata.is_controlled_by(&case.cron.metadata.uid);
        Ok(Some(job).filter(|job| ours && !is_listed(&case.cron.status, &job.metadata.uid)))
    }

    /// Deletes the Jobs that still run.
    async fn replace(&self, case: &mut Case) -> Result<(), SyncError> {
        for listed in case.cron.status.active.clone() {
            let key = Key::new(listed.namespace.as_str(), listed.name.as_str());
            let job: Job = match self.cx.client.get(&key).await {
                Ok(job) => job,
                Err(error) => {
                    self.tell(case, vec![Notice::warning("FailedGet", format!("Get job: {error}"))]);
                    return Err(SyncError::api(format!("reading Job {key}, which is to be replaced"))(error));
                }
            };
            self.delete(case, &job, "the next start is due and takes its place").await?;
        }
        Ok(())
    }

    async fn delete(&self, case: &mut Case, job: &Job, why: &str) -> Result<(), SyncError> {
        let key = job.metadata.key();
        let options = exactly(&job.metadata).propagation(Propagation::Background);
        match self.cx.writer(&case.key).delete::<Job>(&key, options, why).await {
            Ok(()) => {
                delist(&mut case.cron.status, &job.metadata.uid);
                let message = format!("Deleted job {}", job.metadata.name);
                self.tell(case, vec![Notice::normal("SuccessfulDelete", message)]);
                Ok(())
            }
            Err(error) => {
                // Upstream: cronjob_controllerv2.go, deleteJob: the text says so although it was not.
                self.tell(case, vec![Notice::warning("FailedDelete", format!("Deleted job: {error}"))]);
                Err(SyncError::api(format!("deleting Job {key}"))(error))
            }
        }
    }

    async fn write_status(&self, case: &Case) -> Result<ObjectMeta, SyncError> {
        let CronJobStatus { active, last_schedule_time: last, .. } = &case.cron.status;
        let last = last.map_or("never".to_owned(), |last| last.to_string());
        let why = format!("{} Jobs at work, the last start {last}", active.len());
        let body = manifest_with_status(&case.cron, &case.cron.status);
        match self.cx.writer(&case.key).update_status::<CronJob>(&case.key, &body, why).await {
            Ok(written) => Ok(written.metadata),
            Err(error) => Err(SyncError::api(format!("writing the status of {}", case.key))(error)),
        }
    }

    fn tell(&self, case: &Case, notices: Vec<Notice>) {
        for Notice { kind, reason, message } in notices {
            self.cx.events.record(&case.about, kind, reason, message, vec![]);
        }
    }
}
