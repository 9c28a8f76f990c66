//! Faults between a controller manager and its API server: whatever a network, a busy server or a crash may do to
//! requests and watches, by the roll of a seeded die.
//!
//! A seed first picks a *mix* (how likely each kind of fault is; some never), then every single fault. So each seed
//! is a world of its own, and a run can be repeated. Faults can be switched off: then what was broken must heal.

mod blackhole;
mod requests;
mod watches;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use flyball_client::{Body, Transport, TransportError};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, RngCore as _, SeedableRng};
use serde::Deserialize;
use tokio::sync::Notify;

pub use blackhole::Blackhole;

/// How likely each kind of fault is, between 0 and 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    /// A request does not leave the machine.
    pub not_sent: f64,
    /// A write is done and its answer lost.
    pub lost_answer: f64,
    /// A write is lost, and nobody knows whether it was done.
    pub lost_request: f64,
    /// An update meets a conflict.
    pub conflict: f64,
    /// The server asks to come back later.
    pub throttled: f64,
    pub server_error: f64,
    /// A watch ends after an event.
    pub watch_cut: f64,
    /// An event of a watch is told once more.
    pub watch_replay: f64,
    /// How late events of a watch may be.
    pub watch_lag: Duration,
    /// The controller manager dies of a write, before it hears the answer.
    pub crash: f64,
    /// A sync panics where it would write.
    pub panic: f64,
    /// A write ends in a restore of the server to a state shortly before.
    pub restore: f64,
}

/// A kind of fault, by which it can be asked for alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Requests are refused: not sent, 429, 500.
    Refused,
    /// Answers are lost, with or without the write being done.
    Lost,
    Conflict,
    /// Watches end, and what they would have told is missed until the next.
    Dropped,
    Duplicated,
    Stale,
    /// The controller manager dies after a write.
    Crash,
    Panic,
    /// The server goes back to an older state: what controllers wrote meanwhile is lost.
    Restore,
}

impl Kind {
    pub const ALL: [Self; 9] = [
        Self::Refused,
        Self::Lost,
        Self::Conflict,
        Self::Dropped,
        Self::Duplicated,
        Self::Stale,
        Self::Crash,
        Self::Panic,
        Self::Restore,
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
            crash: 0.0,
            panic: 0.0,
            restore: 0.0,
        }
    }

    /// The worst of each of some kinds.
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
        }
    }

    /// The same without some kinds.
    fn without(mut self, spared: &[Kind]) -> Self {
        for kind in spared {
            match kind {
                Kind::Refused => (self.not_sent, self.throttled, self.server_error) = (0.0, 0.0, 0.0),
                Kind::Lost => (self.lost_answer, self.lost_request) = (0.0, 0.0),
                Kind::Conflict => self.conflict = 0.0,
                Kind::Dropped => self.watch_cut = 0.0,
                Kind::Duplicated => self.watch_replay = 0.0,
                Kind::Stale => self.watch_lag = Duration::ZERO,
                Kind::Crash => self.crash = 0.0,
                Kind::Panic => self.panic = 0.0,
                Kind::Restore => self.restore = 0.0,
            }
        }
        self
    }

    /// The kinds that it has.
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
        };
        Kind::ALL.into_iter().filter(has).collect()
    }
}

/// So many deaths, panics and restores there are at most in one run: in between it must get somewhere.
const DISASTERS: u32 = 6;
/// Apart from the die of all others, so that a seed is the same world with and without them.
const DISASTER: u64 = 0x5eed;

/// The faults of one run.
pub struct Faults {
    mix: Mix,
    rng: Mutex<StdRng>,
    disasters: Mutex<(StdRng, u32)>,
    on: AtomicBool,
    struck: AtomicBool,
    writes: AtomicU64,
    crash_after: Option<u64>,
    crashed: Notify,
    restorer: OnceLock<Restorer>,
}

/// Takes the server back to before the last few writes of controllers, as many as it is told if nobody else has written or
/// read since, and lets it be down for a while; false if that is not possible.
type Restorer = Box<dyn Fn(u64, Duration) -> bool + Send + Sync>;
/// So many writes are lost at most.
const LOST_WRITES: u64 = 8;
/// So long a server is down at most when it is restored.
const DOWN: Duration = Duration::from_secs(5);

impl Faults {
    /// The faults of a seed, without some kinds.
    pub fn random(seed: u64, spared: &[Kind]) -> Arc<Self> {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut mix = Mix::random(&mut rng);
        let mut rarely = StdRng::seed_from_u64(seed ^ DISASTER);
        let mut chance = || if rarely.random_bool(0.3) { rarely.random_range(0.0..0.1) } else { 0.0 };
        // Not restores: what users wrote in between is undone, and a scenario may then rightly end otherwise (an autoscaler
        // that sees an earlier state scales again). `--fault restore` plays them.
        (mix.crash, mix.panic) = (chance(), chance());
        Self::new(mix.without(spared), rng, None)
    }

    /// Faults of these kinds only, by a seed, and without those that are spared.
    pub fn only(kinds: &[Kind], seed: u64, spared: &[Kind]) -> Arc<Self> {
        Self::new(Mix::worst(kinds).without(spared), StdRng::seed_from_u64(seed), None)
    }

    /// No faults but one: the controller manager dies right after its n-th write, before it hears the answer.
    pub fn crash_after(write: u64) -> Arc<Self> {
        Self::new(Mix::NONE, StdRng::seed_from_u64(0), Some(write))
    }

    fn new(mix: Mix, rng: StdRng, crash_after: Option<u64>) -> Arc<Self> {
        let disasters = Mutex::new((StdRng::seed_from_u64(rng.clone().next_u64() ^ DISASTER), DISASTERS));
        Arc::new(Self {
            mix,
            rng: Mutex::new(rng),
            disasters,
            on: AtomicBool::new(true),
            struck: AtomicBool::new(false),
            writes: AtomicU64::new(0),
            crash_after,
            crashed: Notify::new(),
            restorer: OnceLock::new(),
        })
    }

    /// Says how the server is restored; without it, it never is.
    pub(crate) fn restore_by(&self, restorer: impl Fn(u64, Duration) -> bool + Send + Sync + 'static) {
        // Whoever came first stays: a server has its faults to itself.
        let _ = self.restorer.set(Box::new(restorer));
    }

    /// From now on everything works.
    pub fn end(&self) {
        self.on.store(false, Ordering::Relaxed);
    }

    pub fn have_ended(&self) -> bool {
        !self.on.load(Ordering::Relaxed)
    }

    /// How likely each kind of fault is.
    pub fn mix(&self) -> &Mix {
        &self.mix
    }

    /// Whether a request was struck, or the controller manager died. From then on events may be missing: they are
    /// told at most once, and only by who heard that what they tell of was done.
    pub fn have_struck(&self) -> bool {
        self.struck.load(Ordering::Relaxed)
    }

    /// Writes so far that reached the server.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Waits for the moment at which the controller manager has to die.
    pub async fn crashed(&self) {
        self.crashed.notified().await;
    }

    /// The same transport with faults.
    pub fn over(self: &Arc<Self>, inner: Arc<dyn Transport>) -> Arc<dyn Transport> {
        Arc::new(Faulty { faults: self.clone(), inner })
    }

    /// Whether faults happen now.
    fn are_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    fn strikes(&self, chance: f64) -> bool {
        chance > 0.0 && self.are_on() && self.rng.lock().random_bool(chance.min(1.0))
    }

    /// Rolls the die for a request, and remembers a strike.
    fn strikes_request(&self, chance: f64) -> bool {
        let strikes = self.strikes(chance);
        self.struck.fetch_or(strikes, Ordering::Relaxed);
        strikes
    }

    /// How late the next event of a watch is.
    fn lag(&self) -> Duration {
        match self.are_on() && !self.mix.watch_lag.is_zero() {
            true => self.mix.watch_lag.mul_f64(self.rng.lock().random_range(0.0..1.0)),
            false => Duration::ZERO,
        }
    }

    /// Rolls the die for what must not happen too often.
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

    /// Rolls the die after a write, and restores the server if it says so.
    fn restores(&self) -> bool {
        let Some(restore) = self.restorer.get() else { return false };
        if !self.is_disaster(self.mix.restore) {
            return false;
        }
        let (rng, _) = &mut *self.disasters.lock();
        restore(rng.random_range(1..=LOST_WRITES), DOWN.mul_f64(rng.random_range(0.0..1.0)))
    }

    /// Counts a write that was done; true when the controller manager dies of it.
    fn wrote(&self) -> bool {
        let count = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        let is_chosen = self.on.load(Ordering::Relaxed) && self.crash_after == Some(count);
        let dies = is_chosen || self.is_disaster(self.mix.crash);
        if dies {
            self.struck.store(true, Ordering::Relaxed);
            self.crashed.notify_one();
        }
        dies
    }
}

/// What a sync panics with: those who tell of panics may keep quiet about it.
pub struct Deliberate;

struct Faulty {
    faults: Arc<Faults>,
    inner: Arc<dyn Transport>,
}

impl Transport for Faulty {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        let (faults, inner) = (self.faults.clone(), self.inner.clone());
        Box::pin(async move {
            let is_read = request.method() == http::Method::GET;
            match is_read && request.uri().query().is_some_and(|query| query.contains("watch=")) {
                true => watches::send(faults, inner, request).await,
                false => requests::send(&faults, inner, request, is_read).await,
            }
        })
    }
}
