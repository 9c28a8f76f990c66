//! The status of a CronJob. Pure.

use flyball_api::cron_job::CronJobStatus;
use flyball_api::{CronJob, Job, Object, ObjectMeta, Timestamp, manifest_with_status};
use flyball_runtime::{Outcome, Write};
use smol_str::format_smolstr;

use super::active::{delist, entry, is_listed};

/// The write of the status, if it has changed, or if Jobs over the history limits were deleted. `read` is the CronJob as it was
/// before the sync, which may have written its status since.
pub fn write(read: &CronJob, status: &CronJobStatus, has_deleted: bool) -> Option<Write> {
    let CronJobStatus { active, last_schedule_time: last, .. } = status;
    let last = last.map_or("never".to_owned(), |last| last.to_string());
    // Upstream: cronjob_controllerv2.go, sync: after a deletion the status is written, changed or not.
    (*status != read.status || has_deleted).then(|| {
        Write::update_after_write::<CronJob>(read.key(), manifest_with_status(read, status))
            .subresource("status")
            .why(format_smolstr!("{} active Jobs, lastScheduleTime {last}", active.len()))
    })
}

/// The status after the writes of a plan: deleted Jobs are removed from `status.active`, a created Job is added.
pub fn after(cron: &CronJob, outcome: &Outcome<Option<Timestamp>>) -> CronJobStatus {
    let mut status = cron.status.clone();
    for done in outcome.written() {
        match (done.tag, done.answer.written()) {
            (Some(start), Some(job)) => add_start(&mut status, job, start),
            (None, Some(job)) => delist(&mut status, &job.uid),
            (_, None) => {}
        }
    }
    status
}

/// The scheduled time whose Job already exists, according to the server.
pub fn existing(outcome: &Outcome<Option<Timestamp>>) -> Option<Timestamp> {
    outcome.ignored().find(|(_, error)| error.is_already_exists()).and_then(|(start, _)| *start)
}

/// The status with a Job that already existed, if the CronJob controls it and it is not in `status.active`: then a controller
/// manager crashed after it had created the Job and before it wrote the status.
pub fn with_existing(cron: &CronJob, job: &Job, start: Timestamp) -> Option<CronJobStatus> {
    let meta = &job.metadata;
    let is_missing = meta.is_controlled_by(&cron.metadata.uid) && !is_listed(&cron.status, &meta.uid);
    is_missing.then(|| {
        let mut status = cron.status.clone();
        add_start(&mut status, meta, start);
        status
    })
}

fn add_start(status: &mut CronJobStatus, job: &ObjectMeta, start: Timestamp) {
    status.active.push(entry(job));
    status.last_schedule_time = Some(start);
}
