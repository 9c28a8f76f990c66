//! Faults between a controller manager and its API server: what a network, a busy server or a crash may do to requests and
//! watches, chosen by a seeded random generator.
//!
//! A seed first picks a *mix* (the probability of each kind of fault; some are zero), then every single fault. So a seed
//! determines a run, which can be repeated. Faults can be switched off: then the controllers must repair what is broken.

mod blackhole;
mod requests;
mod watches;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use flyball_client::{Body, Transport, TransportError};
use flyball_latest as latest;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, RngCore as _, SeedableRng};
use serde::Deserialize;
use tokio::sync::Notify;

pub use blackhole::Blackhole;

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
}

impl Kind {
    pub const ALL: [Self; 10] = [
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
        standby_lag: Duration::ZERO,
    };

    /// The mix of a seed.
    fn random(rng: &mut StdRng) -> Self {
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
    fn worst(kinds: &[Kind]) -> Self {
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
            standby_lag: STANDBY_LAG,
        }
    }

    /// The same without these kinds.
    fn without(mut self, spared: &[Kind]) -> Self {
        for kind in spared {
            match kind {
                Kind::Refused => (self.not_sent, self.throttled, self.server_error) = (0.0, 0.0, 0.0),
                Kind::Lost => (self.lost_answer, self.lost_request) = (0.0, 0.0),
                Kind::Conflict => self.conflict = 0.0,
                Kind::Dropped => self.watch_cut = 0.0,
                Kind::Duplicated => self.watch_replay = 0.0,
                Kind::Stale => (self.watch_lag, self.standby_lag) = (Duration::ZERO, Duration::ZERO),
                // A standby does not know either what the leader had in memory.
                Kind::Crash => (self.crash, self.failover) = (0.0, 0.0),
                Kind::Panic => self.panic = 0.0,
                Kind::Restore => self.restore = 0.0,
                Kind::Failover => self.failover = 0.0,
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
        };
        Kind::ALL.into_iter().filter(has).collect()
    }
}

/// See [`Mix::standby_lag`].
const STANDBY_LAG: Duration = Duration::from_secs(3);
/// The maximum number of crashes, panics, restores and failovers in one run: in between it must make progress.
const MOST_DISASTERS: u32 = 6;
/// They have their own generator, so that a seed gives the same other faults with and without them.
const DISASTER_SEED: u64 = 0x5eed;

/// The faults of one run.
pub struct Faults {
    mix: Mix,
    rng: Mutex<StdRng>,
    disasters: Mutex<(StdRng, u32)>,
    on: AtomicBool,
    struck: AtomicBool,
    writes: AtomicU64,
    crash_after: Option<u64>,
    dies: Notify,
    /// How the controller manager dies next.
    death: Mutex<Death>,
    restorer: OnceLock<Restorer>,
    /// Counts restores. Each ends all watches at once, also those whose events are delayed.
    restored: latest::Sender<u64>,
}

/// What happens to a controller manager that has just made a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// Another process starts from nothing.
    Crash,
    /// A standby takes over.
    Failover,
}

/// Restores the server to before the last writes of controllers (at most the given number, and none that a test client has read
/// or written since), and keeps it down for a while; false if that is not possible.
type Restorer = Box<dyn Fn(u64, Duration) -> bool + Send + Sync>;
/// The maximum number of lost writes.
const LOST_WRITES: u64 = 8;
/// The longest time that a restored server is down.
const DOWN: Duration = Duration::from_secs(5);

impl Faults {
    /// The faults of a seed, without some kinds.
    pub fn random(seed: u64, spared: &[Kind]) -> Arc<Self> {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut mix = Mix::random(&mut rng);
        let mut rarely = StdRng::seed_from_u64(seed ^ DISASTER_SEED);
        let mut chance = || if rarely.random_bool(0.3) { rarely.random_range(0.0..0.1) } else { 0.0 };
        (mix.crash, mix.panic, mix.restore, mix.failover) = (chance(), chance(), chance(), chance());
        mix.standby_lag = STANDBY_LAG;
        Self::new(mix.without(spared), rng, None)
    }

    /// Faults of these kinds only, from a seed, and without the excluded ones.
    pub fn only(kinds: &[Kind], seed: u64, spared: &[Kind]) -> Arc<Self> {
        Self::new(Mix::worst(kinds).without(spared), StdRng::seed_from_u64(seed), None)
    }

    /// One fault only: the controller manager crashes right after its n-th write, before it gets the response.
    pub fn crash_after(write: u64) -> Arc<Self> {
        Self::new(Mix::NONE, StdRng::seed_from_u64(0), Some(write))
    }

    fn new(mix: Mix, rng: StdRng, crash_after: Option<u64>) -> Arc<Self> {
        let disasters =
            Mutex::new((StdRng::seed_from_u64(rng.clone().next_u64() ^ DISASTER_SEED), MOST_DISASTERS));
        Arc::new(Self {
            mix,
            rng: Mutex::new(rng),
            disasters,
            on: AtomicBool::new(true),
            struck: AtomicBool::new(false),
            writes: AtomicU64::new(0),
            crash_after,
            dies: Notify::new(),
            death: Mutex::new(Death::Crash),
            restorer: OnceLock::new(),
            restored: latest::Sender::new(0),
        })
    }

    /// Sets how the server is restored; without it, it never is.
    pub(crate) fn restore_by(&self, restorer: impl Fn(u64, Duration) -> bool + Send + Sync + 'static) {
        // The first one stays: a server has its own faults.
        let _ = self.restorer.set(Box::new(restorer));
    }

    /// Switches all faults off.
    pub fn end(&self) {
        self.on.store(false, Ordering::Relaxed);
    }

    pub fn have_ended(&self) -> bool {
        !self.on.load(Ordering::Relaxed)
    }

    pub fn mix(&self) -> &Mix {
        &self.mix
    }

    /// Whether a request has failed by a fault, or the controller manager has crashed. From then on events may be missing: they
    /// are emitted at most once, after a confirmed write.
    pub fn have_struck(&self) -> bool {
        self.struck.load(Ordering::Relaxed)
    }

    /// Writes so far that reached the server.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Waits until the controller manager has to die.
    pub async fn death(&self) -> Death {
        self.dies.notified().await;
        *self.death.lock()
    }

    /// Whether a standby is needed.
    pub fn fail_over(&self) -> bool {
        self.are_on() && self.mix.failover > 0.0
    }

    /// The transport with faults.
    pub fn over(self: &Arc<Self>, inner: Arc<dyn Transport>) -> Arc<dyn Transport> {
        Arc::new(Faulty { faults: self.clone(), inner, lag: self.mix.watch_lag })
    }

    /// The same for a standby.
    pub fn over_standby(self: &Arc<Self>, inner: Arc<dyn Transport>) -> Arc<dyn Transport> {
        Arc::new(Faulty { faults: self.clone(), inner, lag: self.mix.watch_lag.max(self.mix.standby_lag) })
    }

    /// Whether faults happen now.
    fn are_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    fn strikes(&self, chance: f64) -> bool {
        chance > 0.0 && self.are_on() && self.rng.lock().random_bool(chance.min(1.0))
    }

    /// Whether a fault hits a request; records that one did.
    fn strikes_request(&self, chance: f64) -> bool {
        let strikes = self.strikes(chance);
        self.struck.fetch_or(strikes, Ordering::Relaxed);
        strikes
    }

    /// The delay of the next watch event, where this is the largest.
    fn lag(&self, largest: Duration) -> Duration {
        match self.are_on() && !largest.is_zero() {
            true => largest.mul_f64(self.rng.lock().random_range(0.0..1.0)),
            false => Duration::ZERO,
        }
    }

    /// The same for faults whose number is limited.
    fn is_disaster(&self, chance: f64) -> bool {
        if chance == 0.0 || !self.are_on() {
            return false;
        }
        let (rng, left) = &mut *self.disasters.lock();
        let strikes = *left > 0 && rng.random_bool(chance);
        *left -= u32::from(strikes);
        self.struck.fetch_or(strikes, Ordering::Relaxed);
        strikes
    }

    /// Whether the server is restored after a write; restores it.
    fn restores(&self) -> bool {
        let Some(restore) = self.restorer.get() else { return false };
        if !self.is_disaster(self.mix.restore) {
            return false;
        }
        let (writes, down) = {
            let (rng, _) = &mut *self.disasters.lock();
            (rng.random_range(1..=LOST_WRITES), DOWN.mul_f64(rng.random_range(0.0..1.0)))
        };
        let is_restored = restore(writes, down);
        if is_restored {
            self.restored.send_modify(|count| *count += 1);
        }
        is_restored
    }

    /// Counts a write that was made; true if the controller manager dies after it.
    fn wrote(&self) -> bool {
        let count = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        let is_chosen = self.on.load(Ordering::Relaxed) && self.crash_after == Some(count);
        let death = match is_chosen || self.is_disaster(self.mix.crash) {
            true => Some(Death::Crash),
            false => self.is_disaster(self.mix.failover).then_some(Death::Failover),
        };
        if let Some(death) = death {
            self.struck.store(true, Ordering::Relaxed);
            *self.death.lock() = death;
            self.dies.notify_one();
        }
        death.is_some()
    }
}

/// The payload of deliberate panics, so that they can be left out of the output.
pub struct Deliberate;

struct Faulty {
    faults: Arc<Faults>,
    inner: Arc<dyn Transport>,
    /// The largest delay of watch events.
    lag: Duration,
}

impl Transport for Faulty {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        let (faults, inner, lag) = (self.faults.clone(), self.inner.clone(), self.lag);
        Box::pin(async move {
            let is_read = request.method() == http::Method::GET;
            match is_read && request.uri().query().is_some_and(|query| query.contains("watch=")) {
                true => watches::send(faults, inner, request, lag).await,
                false => requests::send(&faults, inner, request, is_read).await,
            }
        })
    }
}
