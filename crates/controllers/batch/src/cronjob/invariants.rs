//! What must hold for every decision, every clean-up and every status, whatever the snapshot; for tables and
//! properties alike.

use std::sync::Arc;

use flyball_api::cron_job::CronJobStatus;
use flyball_api::job::{COMPLETE, FAILED};
use flyball_api::time::SignedDuration;
use flyball_api::{CronJob, Job, Timestamp, Uid};
use rustc_hash::FxHashSet;

use super::missed::MARGIN;
use super::plan::{Decision, schedule};
use super::schedule::Schedule;
use super::template::job_name;
use super::zone::Zone;

/// Checks a decision against what it was made from.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check_decision(
    cron: &CronJob,
    now: Timestamp,
    local: &Zone,
    decision: &Decision,
) -> Result<(), String> {
    let spec = &cron.spec;
    let is_idle = spec.suspend == Some(true) || cron.metadata.is_deleting();
    let zone_is_known = spec.time_zone.as_ref().is_none_or(|name| Zone::load(name, local).is_ok());
    let schedule = schedule(cron, local).ok().filter(|_| zone_is_known);
    let next = schedule.as_ref().and_then(|schedule| schedule.next(now));
    let rules = match decision {
        // A schedule that can be read and fires some time is never forgotten.
        Decision::Rest => vec![("rests for a reason", is_idle || next.is_none())],
        Decision::Wait(wait) => {
            let wakes = SignedDuration::try_from(*wait).ok().and_then(|wait| now.checked_add(wait).ok());
            let latest = next.and_then(|next| next.checked_add(MARGIN).ok());
            vec![
                ("nothing is awaited while suspended", !is_idle),
                ("wakes in the future", !wait.is_zero()),
                ("wakes no later than at the next start", wakes <= latest && latest.is_some()),
            ]
        }
        Decision::Start(start) => {
            let deadline = spec.starting_deadline_seconds.map(SignedDuration::from_secs);
            let is_late = deadline.is_some_and(|deadline| now.duration_since(*start) > deadline);
            let name = job_name(cron, *start);
            vec![
                ("nothing is started while suspended", !is_idle),
                ("nothing is started before its time", *start <= now),
                ("nothing is started past its deadline", !is_late),
                ("only what the schedule has", schedule.is_some_and(|schedule| fires_at(&schedule, *start))),
                ("no start twice", cron.status.last_schedule_time.is_none_or(|last| last < *start)),
                ("no Job twice", cron.status.active.iter().all(|job| job.name != name)),
                (
                    "none beside another, if that is forbidden",
                    spec.concurrency_policy != "Forbid" || cron.status.active.is_empty(),
                ),
            ]
        }
    };
    broken(&rules).map_or(Ok(()), |rule| Err(format!("{rule}: at {now}, decided {decision:?}")))
}

/// Checks which ended Jobs go.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check_surplus(cron: &CronJob, jobs: &[Arc<Job>], surplus: &[&Job]) -> Result<(), String> {
    let gone: FxHashSet<&Uid> = surplus.iter().map(|job| &job.metadata.uid).collect();
    let limits =
        [(COMPLETE, cron.spec.successful_jobs_history_limit), (FAILED, cron.spec.failed_jobs_history_limit)];
    let mut rules = vec![
        ("only Jobs that have ended go", surplus.iter().all(|job| job.is_finished())),
        ("no Job goes twice", gone.len() == surplus.len()),
    ];
    for (end, limit) in limits {
        let ended = jobs.iter().filter(|job| job.end().is_some_and(|condition| condition.type_ == end));
        let (go, stay): (Vec<&Arc<Job>>, Vec<_>) = ended.partition(|job| gone.contains(&job.metadata.uid));
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(0));
        let began = |job: &Arc<Job>| (job.status.start_time.is_none(), job.status.start_time);
        rules.push(("no more are kept than asked for", stay.len() <= limit));
        rules.push(("no fewer are kept than asked for", go.is_empty() || stay.len() == limit));
        let latest = go.iter().map(|job| began(job)).max();
        rules.push(("the oldest go", stay.iter().all(|job| latest.is_none_or(|gone| began(job) >= gone))));
    }
    broken(&rules).map_or(Ok(()), |rule| Err(format!("{rule}: of {} go {gone:?}", jobs.len())))
}

/// Checks a status against the one before it.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check_status(before: &CronJobStatus, after: &CronJobStatus) -> Result<(), String> {
    let listed: FxHashSet<&Uid> = after.active.iter().map(|job| &job.uid).collect();
    let rules = [
        ("no Job is listed twice", listed.len() == after.active.len()),
        ("the last start never moves back", before.last_schedule_time <= after.last_schedule_time),
        ("the last success never moves back", before.last_successful_time <= after.last_successful_time),
    ];
    broken(&rules).map_or(Ok(()), |rule| Err(format!("{rule}: {before:?}, then {after:?}")))
}

/// Whether the schedule names this moment. An interval counts from any.
fn fires_at(schedule: &Schedule, moment: Timestamp) -> bool {
    match schedule {
        Schedule::Every(_) => true,
        Schedule::Clock(_) => {
            let before = moment.checked_sub(SignedDuration::from_secs(1)).ok();
            before.and_then(|before| schedule.next(before)) == Some(moment)
        }
    }
}

fn broken<'a>(rules: &[(&'a str, bool)]) -> Option<&'a str> {
    rules.iter().find(|(_, holds)| !holds).map(|(rule, _)| *rule)
}
