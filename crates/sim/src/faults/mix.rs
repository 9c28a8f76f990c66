//! How probable each kind of fault is in a run.

use std::time::Duration;

use rand::Rng as _;
use rand::rngs::StdRng;
use serde::Deserialize;

/// See [`Mix::standby_lag`].
pub(super) const STANDBY_LAG: Duration = Duration::from_secs(3);

/// The probability of each kind of fault.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    /// A request is not sent.
    pub not_sent: f64,
    /// A write is made and its response lost.
    pub lost_answer: f64,
    /// A write is not made, and its outcome is reported as unknown.
    pub lost_request: f64,
    /// An update gets a conflict, or a patch or deletion with a resourceVersion.
    pub conflict: f64,
    /// The server answers 429.
    pub throttled: f64,
    pub server_error: f64,
    /// A watch ends after an event.
    pub watch_cut: f64,
    /// An event of a watch is delivered twice.
    pub watch_replay: f64,
    /// The largest delay of watch events.
    pub watch_lag: Duration,
    /// The controller manager crashes after a write, before it gets the response.
    pub crash: f64,
    /// A sync panics at a write.
    pub panic: f64,
    /// After a write the server is restored to a state shortly before it.
    pub restore: f64,
    /// The leader is killed after a write, before it gets the response, and a standby takes over at once.
    pub failover: f64,
    /// The leader is cut off from the server after a write, continues to run, and comes back, mostly after a standby has taken over.
    pub cut_off: f64,
    /// The largest delay of a standby's watch events, also when it has become the leader.
    pub standby_lag: Duration,
}

/// A kind of fault, for the command line and for scenarios that exclude it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Requests are refused: not sent, 429, 500.
    Refused,
    /// Responses are lost, with or without the write being made.
    Lost,
    Conflict,
    /// Watches end, and their events are missing until the next one.
    Dropped,
    Duplicated,
    Stale,
    /// The controller manager crashes after a write.
    Crash,
    Panic,
    /// The server is restored to an older state: the writes of controllers since then are lost.
    Restore,
    /// The leader is killed after a write, and a standby whose caches lag takes over. A scenario that excludes crashes has none.
    Failover,
    /// The leader loses its connection and continues; a standby whose caches lag takes over when the lease has expired, and then the
    /// connection is back. A scenario that excludes crashes has none.
    CutOff,
}

impl Kind {
    pub const ALL: [Self; 11] = [
        Self::Refused,
        Self::Lost,
        Self::Conflict,
        Self::Dropped,
        Self::Duplicated,
        Self::Stale,
        Self::Crash,
        Self::Panic,
        Self::Restore,
        Self::Failover,
        Self::CutOff,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Lost => "lost",
            Self::Conflict => "conflict",
            Self::Dropped => "dropped",
            Self::Duplicated => "duplicated",
            Self::Stale => "stale",
            Self::Crash => "crash",
            Self::Panic => "panic",
            Self::Restore => "restore",
            Self::Failover => "failover",
            Self::CutOff => "cutoff",
        }
    }
}

impl std::str::FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| format!("there is no fault {text:?}; known are {}", known()))
    }
}

impl Mix {
    pub const NONE: Self = Self {
        not_sent: 0.0,
        lost_answer: 0.0,
        lost_request: 0.0,
        conflict: 0.0,
        throttled: 0.0,
        server_error: 0.0,
        watch_cut: 0.0,
        watch_replay: 0.0,
        watch_lag: Duration::ZERO,
        crash: 0.0,
        panic: 0.0,
        restore: 0.0,
        failover: 0.0,
        cut_off: 0.0,
        standby_lag: Duration::ZERO,
    };

    /// The mix of a seed.
    pub(super) fn random(rng: &mut StdRng) -> Self {
        let mut chance = |most: f64| if rng.random_bool(0.5) { rng.random_range(0.0..most) } else { 0.0 };
        Self {
            not_sent: chance(0.1),
            lost_answer: chance(0.2),
            lost_request: chance(0.1),
            conflict: chance(0.3),
            throttled: chance(0.1),
            server_error: chance(0.1),
            watch_cut: chance(0.1),
            watch_replay: chance(0.2),
            watch_lag: Duration::from_secs_f64(chance(3.0)),
            ..Self::NONE
        }
    }

    /// The highest probabilities of these kinds, and zero for the others.
    pub(super) fn worst(kinds: &[Kind]) -> Self {
        let chance = |kind: Kind, most: f64| if kinds.contains(&kind) { most } else { 0.0 };
        Self {
            not_sent: chance(Kind::Refused, 0.1),
            throttled: chance(Kind::Refused, 0.1),
            server_error: chance(Kind::Refused, 0.1),
            lost_answer: chance(Kind::Lost, 0.2),
            lost_request: chance(Kind::Lost, 0.1),
            conflict: chance(Kind::Conflict, 0.3),
            watch_cut: chance(Kind::Dropped, 0.1),
            watch_replay: chance(Kind::Duplicated, 0.2),
            watch_lag: Duration::from_secs_f64(chance(Kind::Stale, 3.0)),
            crash: chance(Kind::Crash, 0.1),
            panic: chance(Kind::Panic, 0.1),
            restore: chance(Kind::Restore, 0.1),
            failover: chance(Kind::Failover, 0.1),
            cut_off: chance(Kind::CutOff, 0.1),
            standby_lag: STANDBY_LAG,
        }
    }

    /// The same without these kinds.
    pub(super) fn without(mut self, spared: &[Kind]) -> Self {
        for kind in spared {
            match kind {
                Kind::Refused => (self.not_sent, self.throttled, self.server_error) = (0.0, 0.0, 0.0),
                Kind::Lost => (self.lost_answer, self.lost_request) = (0.0, 0.0),
                Kind::Conflict => self.conflict = 0.0,
                Kind::Dropped => self.watch_cut = 0.0,
                Kind::Duplicated => self.watch_replay = 0.0,
                Kind::Stale => (self.watch_lag, self.standby_lag) = (Duration::ZERO, Duration::ZERO),
                // A standby does not know either what the leader had in memory.
                Kind::Crash => (self.crash, self.failover, self.cut_off) = (0.0, 0.0, 0.0),
                Kind::Panic => self.panic = 0.0,
                Kind::Restore => self.restore = 0.0,
                Kind::Failover => self.failover = 0.0,
                Kind::CutOff => self.cut_off = 0.0,
            }
        }
        self
    }

    /// The kinds with a probability above zero.
    pub fn kinds(&self) -> Vec<Kind> {
        let has = |kind: &Kind| match kind {
            Kind::Refused => self.not_sent + self.throttled + self.server_error > 0.0,
            Kind::Lost => self.lost_answer + self.lost_request > 0.0,
            Kind::Conflict => self.conflict > 0.0,
            Kind::Dropped => self.watch_cut > 0.0,
            Kind::Duplicated => self.watch_replay > 0.0,
            Kind::Stale => !self.watch_lag.is_zero(),
            Kind::Crash => self.crash > 0.0,
            Kind::Panic => self.panic > 0.0,
            Kind::Restore => self.restore > 0.0,
            Kind::Failover => self.failover > 0.0,
            Kind::CutOff => self.cut_off > 0.0,
        };
        Kind::ALL.into_iter().filter(has).collect()
    }
}
