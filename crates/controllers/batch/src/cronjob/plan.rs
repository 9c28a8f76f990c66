//! Whether a CronJob starts a Job now, and what to tell. Pure.

use std::time::Duration;

use flyball_api::{CronJob, Timestamp};
use flyball_runtime::events::EventType;

use super::missed::{Missed, due, is_same_start, wait};
use super::schedule::{InvalidSchedule, Schedule};
use super::template::job_name;
use super::zone::Zone;

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Nothing, until the CronJob changes.
    Rest,
    /// Nothing, for this long.
    Wait(Duration),
    /// Start the Job of this time.
    Start(Timestamp),
}

/// Something to tell about a CronJob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Whether it is a warning.
    pub kind: EventType,
    /// In a word.
    pub reason: &'static str,
    /// In a sentence.
    pub message: String,
}

impl Notice {
    /// Ordinary business.
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind: EventType::Normal, reason, message: message.into() }
    }

    /// Something a person should look at.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind: EventType::Warning, reason, message: message.into() }
    }
}

/// Decides, with the status as it should be by now.
pub fn plan(cron: &CronJob, now: Timestamp, local: &Zone) -> (Decision, Vec<Notice>) {
    let mut notices = vec![];
    let decision = decide(cron, now, local, &mut notices);
    (decision, notices)
}

fn decide(cron: &CronJob, now: Timestamp, local: &Zone, notices: &mut Vec<Notice>) -> Decision {
    let spec = &cron.spec;
    if cron.metadata.is_deleting() {
        return Decision::Rest;
    }
    if let Some(Err(error)) = spec.time_zone.as_ref().map(|name| Zone::load(name, local)) {
        let name = spec.time_zone.as_deref().unwrap_or_default();
        notices.push(Notice::warning("UnknownTimeZone", format!("invalid timeZone: {name:?}: {error}")));
        return Decision::Rest;
    }
    if spec.suspend == Some(true) {
        return Decision::Rest;
    }
    notices.extend(zone_in_schedule(cron));
    let text = &spec.schedule;
    let schedule = match schedule(cron, local) {
        Ok(schedule) => schedule,
        Err(error) => {
            let message = format!("unparseable schedule: {text:?} : {error}");
            notices.push(Notice::warning("UnparseableSchedule", message));
            return Decision::Rest;
        }
    };
    let due = match due(cron, &schedule, now) {
        Ok(due) => due,
        Err(error) => {
            notices.push(Notice::warning("InvalidSchedule", format!("invalid schedule: {text} : {error}")));
            return Decision::Rest;
        }
    };
    let later = || Decision::Wait(wait(cron, &schedule, now));
    let Some(start) = due.start else { return later() };
    if due.missed == Missed::Many {
        let message =
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        notices.push(Notice::warning("TooManyMissedTimes", message));
    }
    if spec
        .starting_deadline_seconds
        .is_some_and(|deadline| now.duration_since(start).as_secs_f64() > deadline as f64)
    {
        let start = start.strftime("%a, %d %b %Y %H:%M:%S +0000");
        notices
            .push(Notice::warning("MissSchedule", format!("Missed scheduled time to start a job: {start}")));
        return later();
    }
    let name = job_name(cron, start);
    let is_active =
        cron.status.active.iter().any(|job| job.name == name && job.namespace == cron.metadata.namespace);
    if is_active || is_same_start(cron.status.last_schedule_time, start) {
        return later();
    }
    if spec.concurrency_policy == "Forbid" && !cron.status.active.is_empty() {
        let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
        notices.push(Notice::normal("JobAlreadyActive", message));
        return later();
    }
    Decision::Start(start)
}

/// The schedule of a CronJob. A zone in the schedule's own text goes before `spec.timeZone`.
///
/// # Errors
/// What is wrong with it.
pub fn schedule(cron: &CronJob, local: &Zone) -> Result<Schedule, InvalidSchedule> {
    let text = &cron.spec.schedule;
    match &cron.spec.time_zone {
        Some(zone) if !text.contains("TZ") && Zone::load(zone, local).is_ok() => {
            Schedule::parse(&format!("TZ={zone} {text}"), local)
        }
        _ => Schedule::parse(text, local),
    }
}

fn zone_in_schedule(cron: &CronJob) -> Option<Notice> {
    let schedule = &cron.spec.schedule;
    schedule.contains("TZ").then(|| {
        let page = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/";
        let message = format!(
            "CRON_TZ or TZ used in schedule {schedule:?} is not officially supported, see {page} for more details"
        );
        Notice::warning("UnsupportedSchedule", message)
    })
}
