//! Which Jobs of a CronJob are running: its list brought up to date with the Jobs there are. Pure, but for what
//! only the server can tell, which is asked for.

use flyball_api::cron_job::CronJobStatus;
use flyball_api::object_reference::ObjectReference;
use flyball_api::{CronJob, Job, Resource, Uid};
use std::sync::Arc;

use super::plan::Notice;
use super::template::start_of;

/// The list after a look at the Jobs, and what is open.
#[derive(Debug, Default, PartialEq)]
pub struct Review<'a> {
    /// The status without Jobs that have ended, with those that were made and not noted before a crash, and with the
    /// times of the latest start and the latest success.
    pub status: CronJobStatus,
    /// What to tell.
    pub notices: Vec<Notice>,
    /// Jobs at work that are not in the list: the list may be old, or somebody else made them.
    pub unlisted: Vec<&'a Job>,
    /// Listed Jobs that are not there: they may be gone, or the cache is old.
    pub missing: Vec<ObjectReference>,
}

/// Looks at all Jobs of a CronJob.
pub fn review<'a>(cron: &CronJob, jobs: &'a [Arc<Job>]) -> Review<'a> {
    let mut review = Review { status: cron.status.clone(), ..Review::default() };
    for job in jobs {
        let is_listed = is_listed(&review.status, &job.metadata.uid);
        // A Job that is there says that its start was made, whatever became of the note of it.
        let start = start_of(cron, job);
        let latest = &mut review.status.last_schedule_time;
        *latest = (*latest).max(start);
        let Some(end) = job.end() else {
            match start {
                _ if is_listed => {}
                Some(_) => review.status.active.push(entry(job)),
                None => review.unlisted.push(job),
            }
            continue;
        };
        if is_listed {
            delist(&mut review.status, &job.metadata.uid);
            let message = format!("Saw completed job: {}, condition: {}", job.metadata.name, end.type_);
            review.notices.push(Notice::normal("SawCompletedJob", message));
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

/// The status with the times that the Jobs tell of, and nothing else new.
pub fn times_noted(cron: &CronJob, jobs: &[Arc<Job>]) -> CronJobStatus {
    CronJobStatus { active: cron.status.active.clone(), ..review(cron, jobs).status }
}

/// Whether the list has the Job with this identity.
pub fn is_listed(status: &CronJobStatus, uid: &Uid) -> bool {
    status.active.iter().any(|listed| listed.uid == *uid)
}

/// Takes a Job off the list.
pub fn delist(status: &mut CronJobStatus, uid: &Uid) {
    status.active.retain(|listed| listed.uid != *uid);
}

/// A Job as the list names it.
pub fn entry(job: &Job) -> ObjectReference {
    let kind = Job::TYPE;
    ObjectReference {
        api_version: kind.api_version(),
        kind: kind.kind,
        namespace: job.metadata.namespace.clone(),
        name: job.metadata.name.clone(),
        uid: job.metadata.uid.clone(),
        resource_version: smol_str::format_smolstr!("{}", job.metadata.resource_version),
        ..ObjectReference::default()
    }
}
