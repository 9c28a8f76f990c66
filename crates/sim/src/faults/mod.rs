//! Faults between a controller manager and its API server: what a network, a busy server or a crash may do to requests and
//! watches, chosen by a seeded random generator.
//!
//! A seed first picks a *mix* (the probability of each kind of fault; some are zero), then every single fault. So a seed
//! determines a run, which can be repeated. Faults can be switched off: then the controllers must repair what is broken.

mod blackhole;
mod link;
mod mix;
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
use tokio::sync::Notify;

pub use blackhole::Blackhole;
pub use link::Link;
use mix::STANDBY_LAG;
pub use mix::{Kind, Mix};

/// The maximum number of crashes, panics, restores, failovers and lost leaders in one run: in between it must make progress.
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
    has_fate: Notify,
    /// What happens to the controller manager next.
    next_fate: Mutex<Fate>,
    missing: OnceLock<Safeguard>,
    restorer: OnceLock<Restorer>,
    /// Counts restores. Each ends all watches at once, also those whose events are delayed.
    restored: latest::Sender<u64>,
}

/// What happens to a controller manager that has just made a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Another process starts from nothing.
    Crash,
    /// A standby takes over.
    Failover,
    /// It is cut off from the server.
    CutOff {
        /// How long before that it began to renew its lease for the last time.
        renewed: Duration,
        lasts: Duration,
    },
}

/// What protects a cluster from two leaders. A test can take one away, to see that the simulator notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Safeguard {
    /// A leader whose lease may have expired sends nothing.
    Fence,
    /// A new leader waits until its caches show everything that a former one wrote.
    CurrentCaches,
}

/// Restores the server to before the last writes of controllers (at most the given number, and none that a test client has read
/// or written since), and keeps it down for a while; false if that is not possible.
type Restorer = Box<dyn Fn(u64, Duration) -> bool + Send + Sync>;
/// The maximum number of lost writes.
const LOST_WRITES: u64 = 8;
/// The longest time that a restored server is down.
const DOWN: Duration = Duration::from_secs(5);
/// The longest time that a leader is cut off: mostly longer than its lease lasts.
const CUT_OFF: Duration = Duration::from_secs(6);
/// A leader renews its lease each time this has passed.
pub(crate) const RETRY_PERIOD: Duration = Duration::from_millis(400);

impl Faults {
    /// The faults of a seed, without some kinds.
    pub fn random(seed: u64, spared: &[Kind]) -> Arc<Self> {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut mix = Mix::random(&mut rng);
        let mut rarely = StdRng::seed_from_u64(seed ^ DISASTER_SEED);
        let mut chance = || if rarely.random_bool(0.3) { rarely.random_range(0.0..0.1) } else { 0.0 };
        (mix.crash, mix.panic, mix.restore, mix.failover) = (chance(), chance(), chance(), chance());
        mix.cut_off = chance();
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
            has_fate: Notify::new(),
            next_fate: Mutex::new(Fate::Crash),
            missing: OnceLock::new(),
            restorer: OnceLock::new(),
            restored: latest::Sender::new(0),
        })
    }

    /// Sets how the server is restored; without it, it never is.
    pub(crate) fn restore_by(&self, restorer: impl Fn(u64, Duration) -> bool + Send + Sync + 'static) {
        // The first one stays: a server has its own faults.
        let _ = self.restorer.set(Box::new(restorer));
    }

    /// Controller managers do without a safeguard from now on.
    pub fn take_away(&self, safeguard: Safeguard) {
        // A test takes away one, and only once.
        let _ = self.missing.set(safeguard);
    }

    /// Whether controller managers have to do without it.
    pub(crate) fn lack(&self, safeguard: Safeguard) -> bool {
        self.missing.get() == Some(&safeguard)
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

    /// Waits until something happens to the leader.
    pub async fn fate(&self) -> Fate {
        self.has_fate.notified().await;
        *self.next_fate.lock()
    }

    /// Whether a standby is needed.
    pub fn fail_over(&self) -> bool {
        self.are_on() && self.mix.failover + self.mix.cut_off > 0.0
    }

    /// The transport with faults, for the process with this connection.
    pub fn over(self: &Arc<Self>, inner: Arc<dyn Transport>, link: &Arc<Link>) -> Arc<dyn Transport> {
        self.with_lag(inner, link, self.mix.watch_lag)
    }

    /// The same for a standby.
    pub fn over_standby(self: &Arc<Self>, inner: Arc<dyn Transport>, link: &Arc<Link>) -> Arc<dyn Transport> {
        self.with_lag(inner, link, self.mix.watch_lag.max(self.mix.standby_lag))
    }

    fn with_lag(
        self: &Arc<Self>,
        inner: Arc<dyn Transport>,
        link: &Arc<Link>,
        lag: Duration,
    ) -> Arc<dyn Transport> {
        Arc::new(Faulty { faults: self.clone(), inner: link.over(inner), link: Arc::clone(link), lag })
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

    /// Counts a write that a process has made; returns what happens to the process after it. Only leaders have a fate: a standby
    /// makes sure that the accounts of its controllers exist, but it is not watched.
    fn wrote(&self, link: &Link) -> Option<Fate> {
        let count = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        if link.is_cut() || !link.leads() {
            return None;
        }
        let is_chosen = self.on.load(Ordering::Relaxed) && self.crash_after == Some(count);
        let fate = if is_chosen || self.is_disaster(self.mix.crash) {
            Fate::Crash
        } else if self.is_disaster(self.mix.failover) {
            Fate::Failover
        } else if self.is_disaster(self.mix.cut_off) {
            link.cut();
            let (rng, _) = &mut *self.disasters.lock();
            let mut part = |of: Duration| of.mul_f64(rng.random_range(0.0..1.0));
            Fate::CutOff { renewed: part(RETRY_PERIOD), lasts: part(CUT_OFF) }
        } else {
            return None;
        };
        self.struck.store(true, Ordering::Relaxed);
        *self.next_fate.lock() = fate;
        self.has_fate.notify_one();
        Some(fate)
    }
}

/// The payload of deliberate panics, so that they can be left out of the output.
pub struct Deliberate;

struct Faulty {
    faults: Arc<Faults>,
    inner: Arc<dyn Transport>,
    link: Arc<Link>,
    /// The largest delay of watch events.
    lag: Duration,
}

impl Transport for Faulty {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        let (faults, inner, lag) = (self.faults.clone(), self.inner.clone(), self.lag);
        let link = Arc::clone(&self.link);
        Box::pin(async move {
            let is_read = request.method() == http::Method::GET;
            match is_read && request.uri().query().is_some_and(|query| query.contains("watch=")) {
                true => watches::send(faults, inner, request, lag).await,
                false => requests::send(&faults, &link, inner, request, is_read).await,
            }
        })
    }
}
