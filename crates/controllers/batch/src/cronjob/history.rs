//! Which finished Jobs are beyond the history limits of a CronJob, and their deletion. Pure.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::cron_job::CronJobStatus;
use flyball_api::job::{COMPLETE, FAILED};
use flyball_api::{CronJob, Job, Object};
use flyball_client::Propagation;
use flyball_runtime::{Effect, ErrorKinds, Event, Message, Next, Outcome, Write, exactly};

use super::active::{delist, with_times};
use super::status;

/// The writes of a clean-up: the status, then the deletions of surplus Jobs, each tagged with its Job. All of these are tried.
///
/// Surplus Jobs contain the times of starts and successes. If the status were not written first, a crash after their deletion would
/// lose these.
pub fn clean_up<'a>(
    cron: &CronJob,
    jobs: &[Arc<Job>],
    surplus: &[&'a Job],
) -> impl Iterator<Item = Effect<Option<&'a Job>>> + use<'a> {
    let delete = |job: &&'a Job| {
        let options = exactly(&job.metadata).propagation(Propagation::Background);
        let delete = deletion(Write::delete_with::<Job>(job.key(), options));
        delete.why("it exceeds the history limit").tag(Some(*job))
    };
    let deletions = (!surplus.is_empty()).then(|| Effect::each(surplus.iter().map(delete)).into());
    let times = deletions.as_ref().and_then(|_| status::write(cron, &with_times(cron, jobs), false));
    times.map(|write| write.tag(None).into()).into_iter().chain(deletions)
}

/// What a clean-up has left.
#[derive(Debug, PartialEq)]
pub struct CleanedUp {
    pub status: CronJobStatus,
    pub has_deleted: bool,
    /// Whether all surplus Jobs are deleted.
    pub is_complete: bool,
}

/// `None` if the status could not be written, so that nothing was deleted: the sync fails.
pub fn cleaned_up(
    cron: &CronJob,
    jobs: &[Arc<Job>],
    surplus: &[&Job],
    outcome: &Outcome<Option<&Job>>,
) -> Option<CleanedUp> {
    if outcome.failures.iter().any(|failure| matches!(failure.tag, Some(None))) {
        return None;
    }
    let mut status = if surplus.is_empty() { cron.status.clone() } else { with_times(cron, jobs) };
    let deleted: Vec<&Job> = outcome.done.iter().filter_map(|done| done.tag).collect();
    deleted.iter().for_each(|job| delist(&mut status, &job.metadata.uid));
    Some(CleanedUp { status, has_deleted: !deleted.is_empty(), is_complete: outcome.is_ok() })
}

/// The delay after which failed deletions of surplus Jobs are retried.
const AGAIN: Duration = Duration::from_secs(60);

/// When to sync again: the next start may be far away, or never come, so failed deletions are retried earlier.
pub fn next(next: Next, are_deleted: bool) -> Next {
    if are_deleted { next } else { next.within(AGAIN) }
}

/// The deletion of a Job with its events. As in upstream, it also fails if the Job is gone.
pub(super) fn deletion(write: Write) -> Write {
    write
        .ignore_only(ErrorKinds::NONE)
        .on_success(Event::normal("SuccessfulDelete", Message::ThenName("Deleted job ".into())))
        // Upstream: cronjob_controllerv2.go, deleteJob: the message of a failure is the same.
        .on_failure(Event::warning("FailedDelete", Message::ThenError("Deleted job: ".into())))
}

/// The finished Jobs beyond the limits, by start time.
pub fn surplus<'a>(cron: &CronJob, jobs: &'a [Arc<Job>]) -> Vec<&'a Job> {
    let limits =
        [(COMPLETE, cron.spec.successful_jobs_history_limit), (FAILED, cron.spec.failed_jobs_history_limit)];
    let beyond = limits.into_iter().flat_map(|(end, limit)| {
        let ended = |job: &&Job| job.end().is_some_and(|condition| condition.type_ == end);
        let mut ended: Vec<&Job> = jobs.iter().map(|job| &**job).filter(ended).collect();
        ended.sort_by(|one, two| {
            // A Job without a start time comes last.
            let key = |job: &Job| (job.status.start_time.is_none(), job.status.start_time);
            key(one).cmp(&key(two)).then_with(|| one.metadata.name.cmp(&two.metadata.name))
        });
        let keep = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(0));
        ended.truncate(ended.len().saturating_sub(keep));
        ended
    });
    beyond.collect()
}
