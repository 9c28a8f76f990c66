//! What is remembered of an autoscaler between two syncs: recommendations and rescales. Pure.

use flyball_api::{Timestamp, Uid};
use jiff::SignedDuration;

/// What is remembered of one autoscaler. As upstream's, it does not survive a restart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// Recommended numbers of replicas.
    pub(super) recommended: Vec<Past>,
    /// How many replicas were added.
    pub(super) added: Vec<Past>,
    pub(super) removed: Vec<Past>,
    /// The autoscaler that has scaled the workload to zero, or tried to with an unknown outcome, while no status says so yet.
    /// Without this, an autoscaler whose status could not be written would take the zero for a user's, and never scale up again.
    /// Upstream has no such memory.
    pub(super) scaled_to_zero: Option<Uid>,
    /// The autoscaler that has scaled the workload up from zero, while its status still says that it has scaled to zero. Without this, an
    /// autoscaler whose status could not be written would take a later zero of a user for its own. Upstream has no such memory.
    pub(super) left_zero: Option<Uid>,
}

/// A number of replicas at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Past {
    pub(super) replicas: i32,
    pub(super) at: Timestamp,
}

impl History {
    /// At the first sync, the present number counts as recommended.
    pub fn begin(&mut self, replicas: i32, now: Timestamp) {
        if self.recommended.is_empty() {
            self.recommended.push(Past { replicas, at: now });
        }
    }

    /// Remembers a change of `from` replicas to `to`. Changes older than the longest period of any policy may be dropped.
    pub fn record_change(&mut self, from: i32, to: i32, longest: SignedDuration, now: Timestamp) {
        let past = Past { replicas: to.abs_diff(from).try_into().unwrap_or(i32::MAX), at: now };
        let cutoff = before(now, longest);
        let side = if to > from { &mut self.added } else { &mut self.removed };
        remember(side, past, |past| past.at < cutoff);
    }

    /// How many replicas there were when the period began that ends now, if there are `replicas` now.
    pub(super) fn at_start_of(&self, period: SignedDuration, replicas: i32, now: Timestamp) -> i32 {
        let cutoff = before(now, period);
        let within = |changes: &[Past]| {
            let recent = changes.iter().filter(|past| past.at > cutoff);
            recent.fold(0_i32, |sum, past| sum.saturating_add(past.replicas))
        };
        replicas.saturating_sub(within(&self.added)).saturating_add(within(&self.removed))
    }
}

/// Replaces the last entry that is too old to matter by `new`, or appends it, so that the list stays short.
pub(super) fn remember(list: &mut Vec<Past>, new: Past, is_old: impl Fn(&Past) -> bool) {
    match list.iter().rposition(is_old) {
        Some(place) => list[place] = new,
        None => list.push(new),
    }
}

pub(super) fn before(now: Timestamp, period: SignedDuration) -> Timestamp {
    now.checked_sub(period).unwrap_or(Timestamp::MIN)
}
