//! Which ended Jobs a CronJob has too many of. Pure.

use std::sync::Arc;

use flyball_api::job::{COMPLETE, FAILED};
use flyball_api::{CronJob, Job};

/// The ended Jobs beyond the limits, those that began first at the front.
pub fn surplus<'a>(cron: &CronJob, jobs: &'a [Arc<Job>]) -> Vec<&'a Job> {
    let limits =
        [(COMPLETE, cron.spec.successful_jobs_history_limit), (FAILED, cron.spec.failed_jobs_history_limit)];
    let beyond = limits.into_iter().flat_map(|(end, limit)| {
        let ended = |job: &&Job| job.end().is_some_and(|condition| condition.type_ == end);
        let mut ended: Vec<&Job> = jobs.iter().map(|job| &**job).filter(ended).collect();
        ended.sort_by(|one, two| {
            // A Job that never began comes last.
            let key = |job: &Job| (job.status.start_time.is_none(), job.status.start_time);
            key(one).cmp(&key(two)).then_with(|| one.metadata.name.cmp(&two.metadata.name))
        });
        let keep = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(0));
        ended.truncate(ended.len().saturating_sub(keep));
        ended
    });
    beyond.collect()
}
