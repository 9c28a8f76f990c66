//! When a node last reported, by our own clock: the clocks of nodes may be wrong. Pure.

use std::time::Duration;

use flyball_api::{Lease, Node, Object, Timestamp, Uid};
use tokio::time::Instant;

/// The time on both clocks. Wall clocks are set back and forth, so durations are measured on the monotonic one.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    pub wall: Timestamp,
    pub monotonic: Instant,
}

/// How long a node may be silent; from flags.
#[derive(Debug, Clone, Copy)]
pub struct GracePeriods {
    /// Until its first report.
    pub startup: Duration,
    pub monitor: Duration,
}

/// When a node was last known to be alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastSign {
    /// It was registered, and has not reported since.
    Created(Timestamp),
    /// Its lease or its status was seen to be renewed.
    Renewed(Instant),
}

/// What is remembered of a node from one check to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    uid: Uid,
    pub last_sign: LastSign,
    /// The heartbeat time of its `Ready` condition, by the node's clock; `None` before its first report.
    heartbeat: Option<Option<Timestamp>>,
    /// When it last renewed its lease, by the node's clock.
    renewed: Option<Timestamp>,
}

/// Compares a node and its lease with what is remembered. After a start nothing is remembered, and any report counts as
/// new.
pub fn observe(before: Option<&Health>, node: &Node, lease: Option<&Lease>, now: Now) -> Health {
    let before = before.filter(|before| before.uid == *node.uid());
    let heartbeat = node.condition("Ready").map(|ready| ready.last_heartbeat_time);
    let renewed = lease.and_then(|lease| lease.spec.renew_time);
    let (known_heartbeat, known_renewal) =
        before.map_or((None, None), |before| (before.heartbeat, before.renewed));
    let has_reported = heartbeat.is_some() && heartbeat != known_heartbeat;
    let has_renewed = lease.is_some() && (before.is_none() || renewed > known_renewal);
    let last_sign = match before {
        _ if has_reported || has_renewed => LastSign::Renewed(now.monotonic),
        Some(before) => before.last_sign,
        None => LastSign::Created(node.metadata.creation_timestamp.unwrap_or(now.wall)),
    };
    Health {
        uid: node.uid().clone(),
        last_sign,
        heartbeat: heartbeat.or(known_heartbeat),
        renewed: renewed.max(known_renewal),
    }
}

impl Health {
    /// Whether the node has been silent for longer than its grace period. One that never reported has the startup period.
    pub fn is_silent(&self, node: &Node, grace: GracePeriods, now: Now) -> bool {
        let grace = if node.condition("Ready").is_some() { grace.monitor } else { grace.startup };
        self.silent_for(now) > grace
    }

    /// Discounts time in which a renewal, or a first report, would not have been seen.
    pub fn discount(&mut self, suspended: Duration) {
        match &mut self.last_sign {
            LastSign::Renewed(at) => *at += suspended,
            LastSign::Created(at) => *at = at.checked_add(suspended).unwrap_or(*at),
        }
    }

    pub fn silent_for(&self, now: Now) -> Duration {
        match self.last_sign {
            LastSign::Renewed(at) => now.monotonic.saturating_duration_since(at),
            LastSign::Created(at) => Duration::try_from(now.wall.duration_since(at)).unwrap_or_default(),
        }
    }
}
