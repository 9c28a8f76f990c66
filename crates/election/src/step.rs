//! The decision: given what was last seen of the lease, and when by our own clock, what to write now.

use std::time::Duration;

use flyball_api::Timestamp;
use tokio::time::Instant;

use crate::{Record, Settings, record::micros};

/// The lease as last seen, and the moment, by our own clock, at which it was first seen like that. The times
/// written in the record come from another machine and are never compared with ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    pub record: Record,
    /// Since when we know it to say so.
    pub since: Instant,
}

impl Observation {
    /// Takes note of what the lease says now; only a change moves `since`.
    pub fn note(seen: &mut Option<Self>, record: Record, now: Instant) {
        match seen {
            Some(seen) if seen.record == record => {}
            _ => *seen = Some(Self { record, since: now }),
        }
    }

    /// When the holder need no longer be respected; a duration beyond the clock's range never runs out.
    pub fn end(&self) -> Option<Instant> {
        let seconds = u64::try_from(self.record.duration_seconds).unwrap_or_default();
        self.since.checked_add(Duration::from_secs(seconds))
    }

    /// Whether the holder is still to be respected.
    pub fn is_valid(&self, now: Instant) -> bool {
        self.end().is_none_or(|end| end > now)
    }
}

/// What to do about the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// There is none: make it, ours.
    Create(Record),
    /// It is ours: write it again.
    Renew(Record),
    /// It was somebody's, and has run out or been given back: take it.
    Take(Record),
    Wait,
}

/// Decides, from the lease as last seen (none: there is no lease), the moment and the time of day.
pub fn step(settings: &Settings, seen: Option<&Observation>, now: Instant, time: Timestamp) -> Action {
    let time = micros(time);
    let fresh = Record {
        holder: settings.identity.clone(),
        duration_seconds: i64::try_from(settings.lease_duration.as_secs()).unwrap_or(i64::MAX),
        acquired: Some(time),
        renewed: Some(time),
        transitions: 0,
    };
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
