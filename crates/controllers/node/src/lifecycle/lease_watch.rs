//! Whether leases that are not renewed can be held against nodes. A watch that delivers nothing may be quiet, or its
//! connection may be dead: no error distinguishes them. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// A requested relist begins within ten seconds, and the monitor checks every five.
const SHORTEST_TRUST: Duration = Duration::from_secs(20);

/// How far the cached leases can be relied upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The server has sent something a short while ago.
    Full,
    /// Nothing came for a while. A relist shows in time whether the server is there.
    Doubtful,
    /// The informers are unhealthy, or nothing came for too long: no node may be declared lost.
    None,
}

/// When the server last sent something through the watch of leases: a lease of any node, a bookmark, or a list.
#[derive(Debug, Clone, Copy, Default)]
pub struct LeaseWatch {
    latest: Option<(u64, Instant)>,
}

impl LeaseWatch {
    /// Records how many messages the server has sent so far.
    pub fn record(&mut self, messages: u64, now: Instant) {
        if self.latest.is_none_or(|(before, _)| before != messages) {
            self.latest = Some((messages, now));
        }
    }

    /// A node renews its lease several times in a grace period. So if the server has sent anything within half of it, a
    /// node that was silent for all of it has stopped renewing.
    pub fn trust(&self, is_healthy: bool, grace: Duration, now: Instant) -> Trust {
        let Some((_, latest)) = self.latest.filter(|_| is_healthy) else { return Trust::None };
        let limit = SHORTEST_TRUST.max(grace / 2);
        match now.saturating_duration_since(latest) {
            quiet if quiet > limit => Trust::None,
            quiet if quiet > limit / 2 => Trust::Doubtful,
            _ => Trust::Full,
        }
    }
}
