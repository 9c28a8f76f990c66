//! CronJobs: suspended, the schedule and its next time, missed times, concurrency, the last Job.

use flyball_api::Timestamp;
use flyball_api::cron::{Schedule, Zone};
use flyball_api::time::format_seconds;

use crate::finding::Finding;
use crate::object::Obj;
use crate::words::{list, one_line, seconds_between, span};
use crate::world::World;

use super::main_problem;

pub(super) fn suspended(_: &World, cron: Obj<'_>) -> Vec<Finding> {
    if !cron.is_true("/spec/suspend") {
        return Vec::new();
    }
    let who =
        super::common::writer_of(cron, "f:suspend").map(|(who, time)| format!(" (set by {who} at {time})"));
    let text = format!("it is suspended{}: no Job is started", who.unwrap_or_default());
    let advice = format!(
        "kubectl -n {} patch cronjob {} -p '{{\"spec\":{{\"suspend\":false}}}}'",
        cron.namespace(),
        cron.name()
    );
    vec![Finding::blocks("cron-suspended", cron, text).advise(advice)]
}

fn read(cron: Obj<'_>) -> Result<(Schedule, String), String> {
    let name = match cron.text("/spec/timeZone") {
        "" => "UTC",
        name => name,
    };
    let zone = Zone::load(name, &Zone::UTC).map_err(|_| format!("there is no time zone {name:?}"))?;
    let text = cron.text("/spec/schedule");
    let schedule = Schedule::parse(text, &zone)
        .map_err(|error| format!("the schedule {text:?} is not valid: {error}"))?;
    Ok((schedule, name.to_owned()))
}

/// The next start after `time`.
fn next(cron: Obj<'_>, time: Timestamp) -> Option<Timestamp> {
    read(cron).ok()?.0.next(time)
}

pub(super) fn schedule(world: &World, cron: Obj<'_>) -> Vec<Finding> {
    let (schedule, zone) = match read(cron) {
        Ok(read) => read,
        Err(problem) => {
            return vec![
                Finding::blocks("cron-schedule", cron, problem)
                    .advise("correct spec.schedule or spec.timeZone"),
            ];
        }
    };
    if cron.is_true("/spec/suspend") {
        return Vec::new();
    }
    let given = if cron.text("/spec/timeZone").is_empty() {
        ", the time zone of the controller manager is taken for UTC"
    } else {
        ""
    };
    let text = match schedule.next(world.now) {
        Some(time) => {
            let wait = span(seconds_between(world.now, time));
            format!(
                "the next Job is due at {} (in {wait}; schedule {:?} in {zone}{given})",
                format_seconds(time),
                cron.text("/spec/schedule")
            )
        }
        None => {
            let text = format!("the schedule {:?} names no time that will come", cron.text("/spec/schedule"));
            return vec![Finding::blocks("cron-schedule", cron, text)];
        }
    };
    vec![Finding::notes("cron-schedule", cron, text)]
}

pub(super) fn missed(world: &World, cron: Obj<'_>) -> Vec<Finding> {
    if cron.is_true("/spec/suspend") {
        return Vec::new();
    }
    let mut found = Vec::new();
    if let Some(event) = world.event(
        cron,
        &["TooManyMissedTimes", "MissSchedule", "MissingSchedule", "UnexpectedJob", "FailedCreate"],
    ) {
        let text = match event.reason {
            "FailedCreate" => {
                format!("its Job cannot be created: {}", super::refusals::digest(event.message).0)
            }
            _ => format!("{}: {}", event.reason, one_line(event.message, 200)),
        };
        found.push(match event.reason {
            "FailedCreate" => Finding::blocks("cron-missed", cron, text),
            _ => Finding::notes("cron-missed", cron, text),
        });
    }
    let last = cron.time("/status/lastScheduleTime").or_else(|| cron.time("/metadata/creationTimestamp"));
    let due = last.and_then(|last| next(cron, last)).filter(|due| seconds_between(*due, world.now) > 0);
    let Some(due) = due else { return found };
    let late = seconds_between(due, world.now);
    let limit = cron.int("/spec/startingDeadlineSeconds");
    let is_forbidden =
        cron.text("/spec/concurrencyPolicy") == "Forbid" && cron.list("/status/active").next().is_some();
    if is_forbidden || late < 15 {
        return found;
    }
    let text = match limit {
        Some(limit) if late > limit => format!(
            "the Job that was due at {} was not started: startingDeadlineSeconds allows {limit}s, and it is {} late",
            format_seconds(due),
            span(late)
        ),
        _ => {
            format!("the Job that was due at {} has not been started for {}", format_seconds(due), span(late))
        }
    };
    let advice = match limit {
        Some(limit) if limit < 10 => {
            "startingDeadlineSeconds below 10 may skip Jobs: the controller looks every 10 seconds"
        }
        _ => "check that the controller manager runs, and the events of the CronJob",
    };
    found.push(Finding::blocks("cron-missed", cron, text).advise(advice));
    found
}

pub(super) fn concurrency(world: &World, cron: Obj<'_>) -> Vec<Finding> {
    let active: Vec<&str> = cron.list("/status/active").map(|job| job.text("/name")).collect();
    if active.is_empty() || cron.is_true("/spec/suspend") {
        return Vec::new();
    }
    let jobs = active.iter().filter_map(|name| world.get("Job", cron.namespace(), name).found());
    let ages: Vec<i64> = jobs
        .filter_map(|job| job.time("/status/startTime"))
        .map(|start| seconds_between(start, world.now))
        .collect();
    let age = ages.iter().max().map(|age| format!(", running for {}", span(*age))).unwrap_or_default();
    match cron.text("/spec/concurrencyPolicy") {
        "Forbid" => {
            let text = format!(
                "concurrencyPolicy is Forbid, and Job {} has not finished{age}: no other is started",
                list(&active, 3)
            );
            let problem = active
                .iter()
                .find_map(|name| main_problem(world, world.get("Job", cron.namespace(), name).found()?));
            let text = problem.map_or(text.clone(), |problem| format!("{text}; {}", problem.carried(cron)));
            vec![
                Finding::blocks("cron-concurrency", cron, text)
                    .advise("let the Job end, delete it, or set its activeDeadlineSeconds"),
            ]
        }
        _ => {
            vec![Finding::notes("cron-concurrency", cron, format!("Job {} is active{age}", list(&active, 3)))]
        }
    }
}

pub(super) fn last_job(world: &World, cron: Obj<'_>) -> Vec<Finding> {
    let jobs = world.dependents(cron).filter(|job| job.kind() == "Job");
    let Some(last) = jobs.max_by_key(|job| job.time("/metadata/creationTimestamp")) else {
        return Vec::new();
    };
    match last.has("Failed", "True") {
        true => main_problem(world, last).into_iter().collect(),
        false => Vec::new(),
    }
}
