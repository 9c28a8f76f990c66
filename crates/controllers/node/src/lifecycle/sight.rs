//! Whether signs of life can reach us at all. A watch through which nothing comes may be a quiet one, or one whose
//! connection leads nowhere: no failure tells them apart. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// A list that somebody asks for in doubt begins within ten seconds, and the monitor looks every five.
const SHORTEST_TRUST: Duration = Duration::from_secs(20);

/// How far what the cache of leases shows can be relied upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// The server was heard of a short while ago.
    Clear,
    /// Nothing came for a while. The server is to be asked for all leases, so that it is known in time.
    Doubtful,
    /// Nothing can be said of any node: what is not seen may be there.
    Blind,
}

/// When the server was last heard of through the watch of leases, by whatever it sent: a lease of any kind, a
/// bookmark, or a list.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hearing {
    latest: Option<(u64, Instant)>,
}

impl Hearing {
    /// Takes in how much the server has sent so far.
    pub fn listen(&mut self, sent: u64, now: Instant) {
        if self.latest.is_none_or(|(before, _)| before != sent) {
            self.latest = Some((sent, now));
        }
    }

    /// What can be said at this moment. A node renews its lease several times in a grace period: while the server
    /// was heard of within half of it, a node that is silent for all of it is silent indeed.
    pub fn sight(&self, is_healthy: bool, grace: Duration, now: Instant) -> Sight {
        let Some((_, heard)) = self.latest.filter(|_| is_healthy) else { return Sight::Blind };
        let trust = SHORTEST_TRUST.max(grace / 2);
        match now.saturating_duration_since(heard) {
            quiet if quiet > trust => Sight::Blind,
            quiet if quiet > trust / 2 => Sight::Doubtful,
            _ => Sight::Clear,
        }
    }
}
