//! Faults between a controller manager and its API server: whatever a network, a busy server or a crash may do to
//! requests and watches, by the roll of a seeded die.
//!
//! A seed first picks a *mix* (how likely each kind of fault is; some never), then every single fault. So each seed
//! is a world of its own, and a run can be repeated. Faults can be switched off: then what was broken must heal.

mod hole;
mod requests;
mod watches;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use flyball_client::{Body, Transport, TransportError};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::Notify;

pub use hole::Hole;

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
    /// The server fails.
    pub server_error: f64,
    /// A watch ends after an event.
    pub watch_cut: f64,
    /// An event of a watch is told once more.
    pub watch_replay: f64,
    /// How late events of a watch may be.
    pub watch_lag: Duration,
}

impl Mix {
    /// No faults.
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
        }
    }
}

/// The faults of one run.
pub struct Faults {
    mix: Mix,
    rng: Mutex<StdRng>,
    on: AtomicBool,
    struck: AtomicBool,
    writes: AtomicU64,
    crash_after: Option<u64>,
    crashed: Notify,
}

impl Faults {
    /// The faults of a seed.
    pub fn random(seed: u64) -> Arc<Self> {
        let mut rng = StdRng::seed_from_u64(seed);
        let mix = Mix::random(&mut rng);
        Self::new(mix, rng, None)
    }

    /// No faults but one: the controller manager dies right after its n-th write, before it hears the answer.
    pub fn crash_after(write: u64) -> Arc<Self> {
        Self::new(Mix::NONE, StdRng::seed_from_u64(0), Some(write))
    }

    fn new(mix: Mix, rng: StdRng, crash_after: Option<u64>) -> Arc<Self> {
        Arc::new(Self {
            mix,
            rng: Mutex::new(rng),
            on: AtomicBool::new(true),
            struck: AtomicBool::new(false),
            writes: AtomicU64::new(0),
            crash_after,
            crashed: Notify::new(),
        })
    }

    /// From now on everything works.
    pub fn end(&self) {
        self.on.store(false, Ordering::Relaxed);
    }

    /// Whether everything works.
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

    /// Rolls the die.
    fn strikes(&self, chance: f64) -> bool {
        chance > 0.0 && self.on.load(Ordering::Relaxed) && self.rng.lock().random_bool(chance.min(1.0))
    }

    /// Rolls the die for a request, and remembers a strike.
    fn strikes_request(&self, chance: f64) -> bool {
        let strikes = self.strikes(chance);
        self.struck.fetch_or(strikes, Ordering::Relaxed);
        strikes
    }

    /// How late the next event of a watch is.
    fn lag(&self) -> Duration {
        match self.on.load(Ordering::Relaxed) && !self.mix.watch_lag.is_zero() {
            true => self.mix.watch_lag.mul_f64(self.rng.lock().random_range(0.0..1.0)),
            false => Duration::ZERO,
        }
    }

    /// Counts a write that was done; true when the controller manager dies of it.
    fn wrote(&self) -> bool {
        let count = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        let dies = self.on.load(Ordering::Relaxed) && self.crash_after == Some(count);
        if dies {
            self.struck.store(true, Ordering::Relaxed);
            self.crashed.notify_one();
        }
        dies
    }
}

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
