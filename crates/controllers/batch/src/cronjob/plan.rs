//! Whether a CronJob starts a Job now. Pure.

use flyball_api::cron::{InvalidSchedule, Schedule, Zone};
use flyball_api::{CronJob, Job, Key, Object, Timestamp};
use flyball_client::{DeleteOptions, Propagation};
use flyball_runtime::{ErrorKinds, Event, Message, Plan, Waiting, Write};
use smol_str::format_smolstr;

use super::history::deletion;
use super::missed::{Missed, due, is_same_start, next_start, wait};
use super::template::{self, job_name};

/// Starts a Job if one is due. The creation is tagged with the start; the deletions of Jobs that it replaces have no tag.
pub fn plan(cron: &CronJob, now: Timestamp, local: &Zone) -> Plan<Option<Timestamp>> {
    let mut events = vec![];
    let plan = decide(cron, now, local, &mut events);
    plan.preceded_by(events)
}

fn decide(cron: &CronJob, now: Timestamp, local: &Zone, events: &mut Vec<Event>) -> Plan<Option<Timestamp>> {
    let (spec, active) = (&cron.spec, &cron.status.active);
    if cron.metadata.is_deleting() {
        return Plan::default();
    }
    let name = spec.time_zone.as_deref().unwrap_or_default();
    let zone = match Zone::load(name, local) {
        Ok(zone) => zone,
        Err(error) => {
            events.push(Event::warning("UnknownTimeZone", format!("invalid timeZone: {name:?}: {error}")));
            return Plan::default();
        }
    };
    if spec.suspend == Some(true) {
        return Plan::default().waiting_for([Waiting::on::<CronJob>(&cron.key(), "to be resumed")]);
    }
    events.extend(zone_in_schedule(cron));
    let text = &spec.schedule;
    let schedule = match schedule(cron, local) {
        Ok(schedule) => schedule,
        Err(error) => {
            let message = format!("unparseable schedule: {text:?} : {error}");
            events.push(Event::warning("UnparseableSchedule", message));
            return Plan::default();
        }
    };
    let due = match due(cron, &schedule, now) {
        Ok(due) => due,
        Err(error) => {
            events.push(Event::warning("InvalidSchedule", format!("invalid schedule: {text} : {error}")));
            return Plan::default();
        }
    };
    let later = || wait_for_next(cron, &schedule, now);
    let Some(start) = due.start else { return later() };
    if due.missed == Missed::Many {
        let message =
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        events.push(Event::warning("TooManyMissedTimes", message));
    }
    let late = now.duration_since(start).as_secs_f64();
    if spec.starting_deadline_seconds.is_some_and(|deadline| late > deadline as f64) {
        let start = start.strftime("%a, %d %b %Y %H:%M:%S +0000");
        events.push(Event::warning("MissSchedule", format!("Missed scheduled time to start a job: {start}")));
        return later();
    }
    let name = job_name(cron, start);
    let is_active = active.iter().any(|job| job.name == name && job.namespace == cron.metadata.namespace);
    if is_active || is_same_start(cron.status.last_schedule_time, start) {
        return later();
    }
    if let (Some(job), "Forbid") = (active.first(), spec.concurrency_policy.as_str()) {
        let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
        events.push(Event::normal("JobAlreadyActive", message));
        let key = Key::new(job.namespace.as_str(), job.name.as_str());
        return later().waiting_for([Waiting::on::<Job>(&key, "to finish")]);
    }
    Plan::of(replacements(cron).chain([creation(cron, start, &zone)]))
}

/// Waits for the next start.
pub fn after_start(cron: &CronJob, now: Timestamp, local: &Zone) -> Plan {
    schedule(cron, local).map_or_else(|_| Plan::default(), |schedule| wait_for_next(cron, &schedule, now))
}

fn wait_for_next<T>(cron: &CronJob, schedule: &Schedule, now: Timestamp) -> Plan<T> {
    let next = next_start(cron, schedule, now).map(|next| Waiting::until(next, "when the next Job is due"));
    Plan::after(wait(cron, schedule, now)).waiting_for(next)
}

/// The deletions of the active Jobs that a new one replaces. Each is read first, as the list may be stale.
fn replacements(cron: &CronJob) -> impl Iterator<Item = Write<Option<Timestamp>>> {
    let replaced = cron.status.active.iter().filter(|_| cron.spec.concurrency_policy == "Replace");
    replaced.map(|listed| {
        let key = Key::new(listed.namespace.as_str(), listed.name.as_str());
        let options = DeleteOptions::default().propagation(Propagation::Background);
        let unreadable = Event::warning("FailedGet", Message::ThenError("Get job: ".into()));
        deletion(Write::get_then_delete::<Job>(key, options, unreadable))
            .why("it is replaced by the next start")
            .tag(None)
    })
}

/// The creation of the Job of one start. The Job may exist, if the controller crashed before it wrote the status. In a
/// terminating namespace nothing can be created, and the CronJob is deleted as well.
fn creation(cron: &CronJob, start: Timestamp, zone: &Zone) -> Write<Option<Timestamp>> {
    let key = Key::new(cron.metadata.namespace.as_str(), job_name(cron, start));
    Write::create::<Job>(key, template::job(cron, start, zone))
        .why(format_smolstr!("a start is due at {start}"))
        .ignore(ErrorKinds::ALREADY_EXISTS | ErrorKinds::NAMESPACE_TERMINATING)
        .on_success(Event::normal("SuccessfulCreate", Message::ThenName("Created job ".into())))
        .on_failure(Event::warning("FailedCreate", Message::ThenError("Error creating job: ".into())))
        .tag(Some(start))
}

/// The schedule of a CronJob. A time zone in the schedule has precedence over `spec.timeZone`.
///
/// # Errors
/// The schedule is invalid.
pub fn schedule(cron: &CronJob, local: &Zone) -> Result<Schedule, InvalidSchedule> {
    let text = &cron.spec.schedule;
    match &cron.spec.time_zone {
        Some(zone) if !text.contains("TZ") && Zone::load(zone, local).is_ok() => {
            Schedule::parse(&format!("TZ={zone} {text}"), local)
        }
        _ => Schedule::parse(text, local),
    }
}

fn zone_in_schedule(cron: &CronJob) -> Option<Event> {
    let schedule = &cron.spec.schedule;
    schedule.contains("TZ").then(|| {
        let page = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/";
        let message = format!(
            "CRON_TZ or TZ used in schedule {schedule:?} is not officially supported, see {page} for more details"
        );
        Event::warning("UnsupportedSchedule", message)
    })
}
