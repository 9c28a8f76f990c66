//! When a node was last heard of, by our own clock: clocks of nodes may be wrong. Pure.

use std::time::Duration;

use flyball_api::{Lease, Node, Object, Timestamp, Uid};
use tokio::time::Instant;

/// Now, on both clocks: calendars are set back and forth, so durations are measured on the other one.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub wall: Timestamp,
    pub ticks: Instant,
}

/// How long a node may be silent; from flags.
#[derive(Debug, Clone, Copy)]
pub struct Graces {
    /// Until it has first reported.
    pub startup: Duration,
    pub monitor: Duration,
}

/// The last sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// It was registered, and has not been heard of since.
    Created(Timestamp),
    /// We saw its lease or its status renewed.
    Seen(Instant),
}

/// What we remember of a node from one look to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    uid: Uid,
    /// The last sign of life.
    pub sign: Sign,
    /// When it last reported by its status, in its own words; none before its first report.
    heartbeat: Option<Option<Timestamp>>,
    /// When it last renewed its lease, in its own words.
    renewed: Option<Timestamp>,
}

/// Compares what is seen of a node now with what we remember. A controller manager that has just started
/// remembers nothing, and takes what it sees for a fresh sign.
pub fn observe(before: Option<&Health>, node: &Node, lease: Option<&Lease>, now: Moment) -> Health {
    let before = before.filter(|before| before.uid == *node.uid());
    let heartbeat = node.condition("Ready").map(|ready| ready.last_heartbeat_time);
    let renewed = lease.and_then(|lease| lease.spec.renew_time);
    let (known_heartbeat, known_renewal) =
        before.map_or((None, None), |before| (before.heartbeat, before.renewed));
    let reported = heartbeat.is_some() && heartbeat != known_heartbeat;
    let renews = lease.is_some() && (before.is_none() || renewed > known_renewal);
    let sign = match before {
        _ if reported || renews => Sign::Seen(now.ticks),
        Some(before) => before.sign,
        None => Sign::Created(node.metadata.creation_timestamp.unwrap_or(now.wall)),
    };
    Health {
        uid: node.uid().clone(),
        sign,
        heartbeat: heartbeat.or(known_heartbeat),
        renewed: renewed.max(known_renewal),
    }
}

impl Health {
    /// Whether the node has been silent for longer than it may be. One that never reported is given the time to start.
    pub fn is_silent(&self, node: &Node, graces: Graces, now: Moment) -> bool {
        let grace = if node.condition("Ready").is_some() { graces.monitor } else { graces.startup };
        self.silence(now) > grace
    }

    /// Time in which we could not have heard anything does not count as silence.
    pub fn excuse(&mut self, blind: Duration) {
        if let Sign::Seen(at) = &mut self.sign {
            *at += blind;
        }
    }

    /// How long nothing was heard.
    pub fn silence(&self, now: Moment) -> Duration {
        match self.sign {
            Sign::Seen(at) => now.ticks.saturating_duration_since(at),
            Sign::Created(at) => Duration::try_from(now.wall.duration_since(at)).unwrap_or_default(),
        }
    }
}
