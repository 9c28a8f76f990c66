//! What must hold for every plan, every clean-up and every status, whatever the snapshot; for tables and properties.

use std::sync::Arc;

use flyball_api::cron::{Schedule, Zone};
use flyball_api::cron_job::CronJobStatus;
use flyball_api::job::{COMPLETE, FAILED};
use flyball_api::time::SignedDuration;
use flyball_api::{CronJob, Job, Timestamp, Uid};
use flyball_runtime::Plan;
use rustc_hash::FxHashSet;

use super::missed::MARGIN;
use super::plan::schedule;
use super::template::job_name;

/// Checks a plan against its view.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check_plan(
    cron: &CronJob,
    now: Timestamp,
    local: &Zone,
    plan: &Plan<Option<Timestamp>>,
) -> Result<(), String> {
    let (spec, active) = (&cron.spec, &cron.status.active);
    let is_idle = spec.suspend == Some(true) || cron.metadata.is_deleting();
    let zone_is_known = spec.time_zone.as_ref().is_none_or(|name| Zone::load(name, local).is_ok());
    let schedule = schedule(cron, local).ok().filter(|_| zone_is_known);
    // A last start in the future counts, too.
    let last = cron.status.last_schedule_time.map_or(now, |last| last.max(now));
    let next = schedule.as_ref().and_then(|schedule| schedule.next(last));
    let writes = plan.writes();
    let deleted = writes.iter().filter(|write| write.tag.is_none()).count();
    let mut rules = vec![
        ("nothing is started or awaited while suspended", !is_idle || is_at_rest(plan)),
        ("rests for a reason", !is_at_rest(plan) || is_idle || next.is_none()),
        ("either a start or a wait", writes.is_empty() || plan.requeue.is_none()),
        ("Jobs are deleted only for a start, before it", deleted == 0 || deleted + 1 == writes.len()),
        ("all active Jobs are replaced, or none", deleted == 0 || deleted == active.len()),
        ("only Replace replaces", deleted == 0 || spec.concurrency_policy == "Replace"),
    ];
    if let Some(wait) = plan.requeue {
        let next_sync = SignedDuration::try_from(wait).ok().and_then(|wait| now.checked_add(wait).ok());
        let latest = next.and_then(|next| next.checked_add(MARGIN).ok());
        rules.extend([
            ("the next sync is in the future", !wait.is_zero()),
            ("the next sync is no later than the next start", next_sync <= latest && latest.is_some()),
            ("says what it waits for", !plan.waiting.is_empty()),
        ]);
    }
    if let Some(start) = start_of(plan) {
        let deadline = spec.starting_deadline_seconds.map(SignedDuration::from_secs);
        let is_late = deadline.is_some_and(|deadline| now.duration_since(start) > deadline);
        let name = job_name(cron, start);
        rules.extend([
            ("nothing is started before its time", start <= now),
            ("nothing is started past its deadline", !is_late),
            ("only what the schedule has", schedule.is_some_and(|schedule| fires_at(&schedule, start))),
            ("no start twice", cron.status.last_schedule_time.is_none_or(|last| last < start)),
            ("no Job twice", active.iter().all(|job| job.name != name)),
            (
                "none beside another, if that is forbidden",
                spec.concurrency_policy != "Forbid" || active.is_empty(),
            ),
        ]);
    }
    broken(&rules).map_or(Ok(()), |rule| Err(format!("{rule}: at {now}, planned {plan}")))
}

/// The start that a plan makes, if any.
pub fn start_of(plan: &Plan<Option<Timestamp>>) -> Option<Timestamp> {
    plan.writes().last().and_then(|write| write.tag)
}

/// Whether a plan neither starts a Job nor waits for the next start.
fn is_at_rest(plan: &Plan<Option<Timestamp>>) -> bool {
    plan.requeue.is_none() && plan.writes().is_empty()
}

/// Checks which finished Jobs are deleted.
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
        rules.push(("no more Jobs are kept than the history limit", stay.len() <= limit));
        rules.push(("no fewer Jobs are kept than the history limit", go.is_empty() || stay.len() == limit));
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

/// Whether the schedule fires at this time. An interval fires at any.
fn fires_at(schedule: &Schedule, time: Timestamp) -> bool {
    match schedule {
        Schedule::Every(_) => true,
        Schedule::Clock(_) => {
            let before = time.checked_sub(SignedDuration::from_secs(1)).ok();
            before.and_then(|before| schedule.next(before)) == Some(time)
        }
    }
}

fn broken<'a>(rules: &[(&'a str, bool)]) -> Option<&'a str> {
    rules.iter().find(|(_, holds)| !holds).map(|(rule, _)| *rule)
}
