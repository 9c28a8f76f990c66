//! The decision: what to write, given the lease as last seen, and when it was seen by the local clock.

use flyball_api::Timestamp;
use tokio::time::Instant;

use crate::{Record, Settings, record::micros};

/// The lease as last seen, and since when, by the local clock. The times in the record come from another machine and are
/// not compared with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    pub record: Record,
    /// When this record was first seen.
    pub since: Instant,
}

impl Observation {
    /// Records the current record; only a change of it updates `since`.
    pub fn note(seen: &mut Option<Self>, record: Record, now: Instant) {
        match seen {
            Some(seen) if seen.record == record => {}
            _ => *seen = Some(Self { record, since: now }),
        }
    }

    /// When the lease expires; a duration beyond the clock's range never does.
    pub fn end(&self) -> Option<Instant> {
        self.since.checked_add(self.record.duration())
    }

    /// Whether the lease is still valid.
    pub fn is_valid(&self, now: Instant) -> bool {
        self.end().is_none_or(|end| end > now)
    }
}

/// What to do about the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// There is no lease: create it.
    Create(Record),
    /// This process holds it.
    Renew(Record),
    /// It has expired or was released.
    Take(Record),
    Wait,
    /// The API server has chosen another holder: this process continues until its lease would have to be renewed.
    EndTerm,
}

/// `seen` is the lease as last seen; `None` if there is no lease. `time` is the wall clock.
pub fn step(settings: &Settings, seen: Option<&Observation>, now: Instant, time: Timestamp) -> Action {
    let time = micros(time);
    let fresh = Record {
        holder: settings.identity.clone(),
        duration_seconds: i64::try_from(settings.recorded_duration().as_secs()).unwrap_or(i64::MAX),
        acquired: Some(time),
        renewed: Some(time),
        ..Record::default()
    };
    if settings.coordinated {
        return assigned(settings, seen, now, fresh);
    }
    let Some(seen) = seen else { return Action::Create(fresh) };
    let Record { holder, acquired, transitions, .. } = &seen.record;
    if *holder == settings.identity {
        return Action::Renew(Record { acquired: *acquired, transitions: *transitions, ..fresh });
    }
    if !holder.is_empty() && seen.is_valid(now) {
        return Action::Wait;
    }
    Action::Take(Record { transitions: transitions.saturating_add(1), ..fresh })
}

/// With coordinated leader election, only the API server creates leases and assigns them.
fn assigned(settings: &Settings, seen: Option<&Observation>, now: Instant, fresh: Record) -> Action {
    let ours = |seen: &&Observation| seen.record.holder == settings.identity && seen.is_valid(now);
    let Some(Observation { record, .. }) = seen.filter(ours) else { return Action::Wait };
    if !record.preferred_holder.is_empty() {
        return Action::EndTerm;
    }
    let Record { acquired, transitions, strategy, .. } = record.clone();
    Action::Renew(Record { acquired, transitions, strategy, ..fresh })
}
