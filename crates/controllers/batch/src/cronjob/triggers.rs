//! Which CronJobs a change concerns, and how soon. Pure.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::cron::Zone;
use flyball_api::{CronJob, Job, Key, Timestamp};
use flyball_cache::{Change, Origin, Store};
use flyball_runtime::Event;

use super::missed::wait;
use super::plan::schedule;

/// When to look at a CronJob that has changed.
#[derive(Debug, PartialEq, Eq)]
pub enum When {
    Now,
    /// At its next start: only the schedule has changed.
    After(Duration),
    /// Not before it changes again: its schedule cannot be parsed.
    Never(Event),
}

/// What a change of a CronJob asks for.
pub fn cron_changed(change: &Change<'_, CronJob>, now: Timestamp, local: &Zone) -> When {
    let (Some(old), Some(new)) = (change.old, change.new) else { return When::Now };
    if old.spec.schedule == new.spec.schedule && old.spec.time_zone == new.spec.time_zone {
        return When::Now;
    }
    match schedule(new, local) {
        Ok(schedule) => When::After(wait(new, &schedule, now)),
        Err(_) => {
            let message = format!("unparseable schedule for cronjob: {}", new.spec.schedule);
            When::Never(Event::warning("UnParseableCronJobSchedule", message))
        }
    }
}

/// The CronJobs that a change of a Job concerns: its controller, and the one it had before.
pub fn job_changed(change: &Change<'_, Job>, crons: &Store<CronJob>) -> Vec<Key> {
    if change.origin == Origin::Resync {
        return vec![];
    }
    let owner = |job: &Arc<Job>| {
        let owner = job.metadata.controller().filter(|owner| owner.kind == "CronJob")?;
        let key = Key::new(job.metadata.namespace.as_str(), owner.name.as_str());
        crons.get(&key).filter(|cron| cron.metadata.uid == owner.uid).map(|_| key)
    };
    let mut keys: Vec<Key> =
        change.old.and_then(owner).into_iter().chain(change.new.and_then(owner)).collect();
    keys.dedup();
    keys
}
