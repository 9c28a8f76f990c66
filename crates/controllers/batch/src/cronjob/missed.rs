//! Which start of a CronJob is due, how many were missed, and when to look again. Pure.

use std::time::Duration;

use flyball_api::cron::Schedule;
use flyball_api::time::{SignedDuration, truncate};
use flyball_api::{CronJob, Timestamp};

/// Woken a little late, so that clocks that differ a little agree that it is time.
pub(super) const MARGIN: SignedDuration = SignedDuration::from_millis(100);
/// More missed starts than this are worth a warning.
const MANY: i64 = 100;

/// The schedule never fires, or not twice: February 31, say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub struct NeverFires;

/// How many starts were missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missed {
    /// None, or the one that is due now.
    None,
    Few,
    /// So many that a person should look.
    Many,
}

/// What there is to say about starts up to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// What was looked at: the last start, or the creation of the CronJob, or the deadline.
    since: Timestamp,
    /// The latest start since then.
    pub start: Option<Timestamp>,
    /// How many there were besides.
    pub missed: Missed,
}

/// The latest start that is due and was not made. Starts that the deadline forbids are not looked at.
pub fn due(cron: &CronJob, schedule: &Schedule, now: Timestamp) -> Result<Due, NeverFires> {
    latest(cron, schedule, now, cron.spec.starting_deadline_seconds)
}

pub fn next_start(cron: &CronJob, schedule: &Schedule, now: Timestamp) -> Option<Timestamp> {
    let from = match latest(cron, schedule, now, None) {
        Ok(Due { start: Some(start), .. }) => start,
        Ok(Due { since, missed: Missed::None, .. }) => since,
        _ => now,
    };
    schedule.next(from)
}

/// How long until shortly after the next start.
pub fn wait(cron: &CronJob, schedule: &Schedule, now: Timestamp) -> Duration {
    let next = next_start(cron, schedule, now).and_then(|next| next.checked_add(MARGIN).ok());
    next.and_then(|next| Duration::try_from(next.duration_since(now)).ok()).unwrap_or_default()
}

fn latest(
    cron: &CronJob,
    schedule: &Schedule,
    now: Timestamp,
    deadline: Option<i64>,
) -> Result<Due, NeverFires> {
    let created = cron.metadata.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH);
    let mut since = cron.status.last_schedule_time.unwrap_or(created);
    if let Some(deadline) = deadline {
        let earliest = now.checked_sub(SignedDuration::from_secs(deadline)).unwrap_or(Timestamp::MIN);
        since = since.max(earliest);
    }
    let due = |start, missed| Ok(Due { since, start, missed });
    let first = schedule.next(since).ok_or(NeverFires)?;
    if now < first {
        return due(None, Missed::None);
    }
    let second = schedule.next(first).ok_or(NeverFires)?;
    if now < second {
        return due(Some(first), Missed::None);
    }
    let interval = second.duration_since(first).as_secs();
    if interval < 1 {
        return Err(NeverFires);
    }
    // Counting them all could take forever after a long pause. The first interval gives a rough number and a
    // place near the end from which to look; one interval further back, as not all of them need be equal.
    let count = now.duration_since(first).as_secs() / interval + 1;
    let near = first.checked_add(SignedDuration::from_secs((count - 2).saturating_mul(interval)));
    let starts = std::iter::successors(schedule.next(near.unwrap_or(first)), |start| schedule.next(*start));
    let start = starts.take_while(|start| *start <= now).last();
    due(start, if count > MANY { Missed::Many } else { Missed::Few })
}

/// A start as the status holds it.
pub fn is_same_start(one: Option<Timestamp>, start: Timestamp) -> bool {
    one.is_some_and(|one| truncate(one) == truncate(start))
}
