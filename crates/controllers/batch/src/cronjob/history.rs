//! Which finished Jobs are beyond the history limits of a CronJob. Pure.

use std::sync::Arc;

use flyball_api::job::{COMPLETE, FAILED};
use flyball_api::{CronJob, Job, Object};
use flyball_client::Propagation;
use flyball_runtime::{Effect, ErrorKinds, Event, Message, Write, exactly};

/// The deletions of surplus Jobs, each tagged with its Job. All are tried.
pub fn deletions<'a>(surplus: &[&'a Job]) -> Option<Effect<&'a Job>> {
    let delete = |job: &&'a Job| {
        let options = exactly(&job.metadata).propagation(Propagation::Background);
        deletion(Write::delete_with::<Job>(job.key(), options)).why("it exceeds the history limit").tag(*job)
    };
    (!surplus.is_empty()).then(|| Effect::each(surplus.iter().map(delete)).into())
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
