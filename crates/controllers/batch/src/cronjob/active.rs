//! Which Jobs of a CronJob are active: the list in its status compared with the Jobs in the cache. Pure; it returns
//! what has to be read from the server.

use flyball_api::cron_job::CronJobStatus;
use flyball_api::object_reference::ObjectReference;
use flyball_api::{CronJob, Job, Key, ObjectMeta, Resource, Uid};
use flyball_runtime::Event;
use std::sync::Arc;

use super::template::start_of;

/// The result of the comparison, and what has to be read from the server.
#[derive(Debug, Default, PartialEq)]
pub struct Review<'a> {
    /// The status without finished Jobs, with Jobs that were created but not listed before a crash, and with the times of the
    /// latest start and the latest success.
    pub status: CronJobStatus,
    /// Events about the changes.
    pub events: Vec<Event>,
    /// Active Jobs that are not in the list: the cached list is stale, or a user created them.
    pub unlisted: Vec<&'a Job>,
    /// Listed Jobs that are not in the cache: they are gone, or the cache is stale.
    pub missing: Vec<ObjectReference>,
}

/// What has to be read from the server to complete a review.
#[derive(Debug, PartialEq, Eq)]
pub enum Need {
    /// The CronJob, for the first unlisted Job. Upstream also reads it for each of them.
    CronJob,
    /// This Job, the first of those that are missing.
    Job(Key),
}

impl Review<'_> {
    /// What is to be read next; `None` if the review is complete.
    pub fn need(&self) -> Option<Need> {
        let missing = |listed: &ObjectReference| Key::new(listed.namespace.as_str(), listed.name.as_str());
        match self.unlisted.first() {
            Some(_) => Some(Need::CronJob),
            None => self.missing.first().map(missing).map(Need::Job),
        }
    }

    /// Handles the first unlisted Job, by the status on the server: it is listed there, or unexpected.
    pub fn record_cron_job(&mut self, live: &CronJobStatus) {
        if self.unlisted.is_empty() {
            return;
        }
        let meta = &self.unlisted.remove(0).metadata;
        if is_listed(live, &meta.uid) {
            self.status.active.push(entry(meta));
            return;
        }
        let message = format!("Saw a job that the controller did not create or forgot: {}", meta.name);
        self.events.push(Event::warning("UnexpectedJob", message));
    }

    /// Handles the first missing Job. It is removed from the list unless it exists on the server.
    pub fn record_job(&mut self, exists: bool) {
        if self.missing.is_empty() {
            return;
        }
        let listed = self.missing.remove(0);
        if exists {
            return;
        }
        let message = format!("Active job went missing: {}", listed.name);
        self.events.push(Event::normal("MissingJob", message));
        delist(&mut self.status, &listed.uid);
    }
}

/// Compares the list with all cached Jobs of a CronJob.
pub fn review<'a>(cron: &CronJob, jobs: &'a [Arc<Job>]) -> Review<'a> {
    let mut review = Review { status: cron.status.clone(), ..Review::default() };
    for job in jobs {
        let is_listed = is_listed(&review.status, &job.metadata.uid);
        // The Job itself shows that its start was made, even if the status was never written.
        let start = start_of(cron, job);
        let latest = &mut review.status.last_schedule_time;
        *latest = (*latest).max(start);
        let Some(end) = job.end() else {
            match start {
                _ if is_listed => {}
                Some(_) => review.status.active.push(entry(&job.metadata)),
                None => review.unlisted.push(job),
            }
            continue;
        };
        if is_listed {
            delist(&mut review.status, &job.metadata.uid);
            let message = format!("Saw completed job: {}, condition: {}", job.metadata.name, end.type_);
            review.events.push(Event::normal("SawCompletedJob", message));
        }
        if job.has_succeeded() {
            let latest = &mut review.status.last_successful_time;
            *latest = (*latest).max(job.status.completion_time);
        }
    }
    let gone = |listed: &&ObjectReference| jobs.iter().all(|job| job.metadata.uid != listed.uid);
    review.missing = review.status.active.iter().filter(gone).cloned().collect();
    review
}

/// The status with the times of the latest start and success among the Jobs, and nothing else new.
pub fn with_times(cron: &CronJob, jobs: &[Arc<Job>]) -> CronJobStatus {
    CronJobStatus { active: cron.status.active.clone(), ..review(cron, jobs).status }
}

/// Whether the list has the Job with this uid.
pub fn is_listed(status: &CronJobStatus, uid: &Uid) -> bool {
    status.active.iter().any(|listed| listed.uid == *uid)
}

/// Removes a Job from the list.
pub fn delist(status: &mut CronJobStatus, uid: &Uid) {
    status.active.retain(|listed| listed.uid != *uid);
}

/// The reference to a Job in the list.
pub fn entry(meta: &ObjectMeta) -> ObjectReference {
    let kind = Job::TYPE;
    ObjectReference {
        api_version: kind.api_version(),
        kind: kind.kind,
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        resource_version: smol_str::format_smolstr!("{}", meta.resource_version),
        ..ObjectReference::default()
    }
}
