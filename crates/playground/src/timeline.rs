//! The time of a cluster that can be moved while the cluster runs.
//!
//! The cluster has a thread with a runtime of its own, whose time normally is real. To move it, tokio's time is paused: it then goes
//! from timer to timer as fast as the cluster's work allows, so that all that is due on the way happens, in order: heartbeats too,
//! and no node is lost. Between two steps ([`STEP`]) the time stands still until the database has what was written. A speed works
//! the same way, in small pieces.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flyball_api::Timestamp;
use flyball_apiserver::{ApiServer, Standstill};
use flyball_runtime::clock::Epoch;
use flyball_runtime::{Chain, Clock};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// How far time moves at once; requests in flight from other threads do not see more of it.
const STEP: Duration = Duration::from_secs(1);
/// No timer is shorter.
const TICK: Duration = Duration::from_millis(1);
/// How often time moves at a speed above 1.
const PACE: Duration = Duration::from_millis(10);
/// A cluster that cannot keep up falls behind, rather than being busy for ever.
const MOST_BEHIND: Duration = Duration::from_millis(100);
/// How often the clock is compared with that of the machine, which is set and goes on while the machine sleeps.
const LOOK: Duration = Duration::from_secs(5);
const DRIFT: Duration = Duration::from_secs(1);
/// Orders that wait for an earlier one.
const ORDERS: usize = 16;
/// The longest way at once.
pub const LONGEST: Duration = Duration::from_secs(366 * 86_400);
pub const FASTEST: u32 = 10_000;
/// The file in a data directory that says how far the cluster's clock is ahead.
pub const FILE: &str = "clock";

enum Order {
    Advance(Duration, oneshot::Sender<()>),
    Speed(u32, oneshot::Sender<()>),
}

/// Why a clock was not moved.
#[derive(Debug, thiserror::Error)]
pub enum TimeError {
    #[error("the clock can be moved by {} days at once, not by {} days", LONGEST.as_secs() / 86_400, by.as_secs() / 86_400)]
    TooFar { by: Duration },
    #[error("the speed is from 1x to {FASTEST}x, not {speed}x")]
    Speed { speed: u32 },
    #[error("the cluster is stopping")]
    Stopping,
    #[error("{}: a number of seconds was expected", path.display())]
    File { path: PathBuf },
    #[error("the thread of the cluster cannot be started")]
    Thread(#[source] std::io::Error),
}

/// The thread of a cluster. It ends when this is dropped.
pub struct Timeline {
    dial: Dial,
    alive: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
}

/// What moves the clock. Cheap to clone.
#[derive(Clone)]
pub struct Dial {
    runtime: Handle,
    clock: Clock,
    orders: mpsc::Sender<Order>,
    speed: watch::Receiver<u32>,
    server: Server,
}

/// The server of the cluster that runs now, if one does.
type Server = Arc<Mutex<Option<ApiServer>>>;

impl std::fmt::Debug for Dial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dial").field("now", &self.now()).field("speed", &self.speed()).finish()
    }
}

impl Timeline {
    /// Starts a thread whose clock is where it was in the data directory, and at `least` if that is later.
    pub async fn start(data_dir: Option<&Path>, least: Option<Timestamp>) -> Result<Self, TimeError> {
        let file = data_dir.map(|dir| dir.join(FILE));
        let ahead = file.as_deref().map_or(Ok(0), read)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(TimeError::Thread)?;
        let (orders, received) = mpsc::channel(ORDERS);
        let (pace, speed) = watch::channel(1);
        let (alive, gone) = oneshot::channel();
        let (ready, started) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let server = Server::default();
        let kept = Arc::clone(&server);
        let body = move || {
            runtime.block_on(async {
                let now = Clock::system().now();
                let begin = now.checked_add(Duration::from_micros(ahead)).unwrap_or(now);
                let begin = least.map_or(begin, |least| begin.max(least));
                let (clock, epoch) = Clock::adjustable_from(begin);
                let mut keeper = Keeper { clock, epoch, file, ahead: 0, pace, server: kept };
                keeper.note();
                let _ = ready.send((Handle::current(), clock));
                tokio::select! {
                    () = keeper.run(received) => {}
                    _ = gone => {}
                }
                keeper.note();
            });
            let _ = end.send(());
            runtime.shutdown_background();
        };
        std::thread::Builder::new()
            .name("flyball-cluster".to_owned())
            .spawn(body)
            .map_err(TimeError::Thread)?;
        let (runtime, clock) = started.await.map_err(|_| TimeError::Stopping)?;
        Ok(Self { dial: Dial { runtime, clock, orders, speed, server }, alive, ended })
    }

    /// Ends the thread. When this returns, it is written down what the clock shows.
    pub async fn end(self) {
        drop(self.alive);
        let _ = self.ended.await;
    }

    pub fn dial(&self) -> Dial {
        self.dial.clone()
    }

    /// Runs something on the cluster's thread.
    pub async fn run<F>(&self, future: F) -> Result<F::Output, TimeError>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.dial.runtime.spawn(future).await.map_err(|_| TimeError::Stopping)
    }
}

impl Dial {
    pub fn clock(&self) -> Clock {
        self.clock
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// How many times faster than real time it goes.
    pub fn speed(&self) -> u32 {
        *self.speed.borrow()
    }

    /// Names the server whose database time must not overtake.
    pub(crate) fn attach(&self, server: Option<ApiServer>) {
        *self.server.lock() = server;
    }

    /// Moves the clock. What becomes due on the way happens, in order. If this is dropped, the clock stops where it is.
    pub async fn advance(&self, by: Duration) -> Result<Timestamp, TimeError> {
        if by > LONGEST {
            return Err(TimeError::TooFar { by });
        }
        self.order(|done| Order::Advance(by, done)).await
    }

    pub async fn set_speed(&self, speed: u32) -> Result<Timestamp, TimeError> {
        if !(1..=FASTEST).contains(&speed) {
            return Err(TimeError::Speed { speed });
        }
        self.order(|done| Order::Speed(speed, done)).await
    }

    async fn order(&self, order: impl FnOnce(oneshot::Sender<()>) -> Order) -> Result<Timestamp, TimeError> {
        let (done, carried_out) = oneshot::channel();
        self.orders.send(order(done)).await.map_err(|_| TimeError::Stopping)?;
        carried_out.await.map_err(|_| TimeError::Stopping)?;
        Ok(self.now())
    }
}

/// What keeps the time, on the thread of the cluster.
struct Keeper {
    clock: Clock,
    epoch: &'static Epoch,
    file: Option<PathBuf>,
    /// How far the clock is ahead of the machine's, in microseconds.
    ahead: i64,
    pace: watch::Sender<u32>,
    server: Server,
}

impl Keeper {
    async fn run(&mut self, mut orders: mpsc::Receiver<Order>) {
        loop {
            let speed = *self.pace.borrow();
            let order = match speed {
                1 => self.real_time(&mut orders).await,
                _ => self.quickly(speed, &mut orders).await,
            };
            match order {
                None => return,
                Some(Order::Speed(speed, done)) => {
                    self.pace.send_replace(speed);
                    self.note();
                    let _ = done.send(());
                }
                Some(Order::Advance(by, done)) => {
                    tokio::time::pause();
                    self.advance(by, done).await;
                    tokio::time::resume();
                    self.note();
                }
            }
        }
    }

    /// Time is real until the next order.
    async fn real_time(&mut self, orders: &mut mpsc::Receiver<Order>) -> Option<Order> {
        loop {
            tokio::select! {
                biased;
                order = orders.recv() => return order,
                () = sleep(LOOK) => self.follow(),
            }
        }
    }

    /// Time goes faster than real time until the next order.
    async fn quickly(&mut self, speed: u32, orders: &mut mpsc::Receiver<Order>) -> Option<Order> {
        tokio::time::pause();
        let (mut last, mut noted) = (std::time::Instant::now(), std::time::Instant::now());
        let order = loop {
            // A blocking task waits in real time, and keeps the virtual one where it is.
            let pause = tokio::task::spawn_blocking(|| std::thread::sleep(PACE));
            tokio::select! {
                biased;
                order = orders.recv() => break order,
                _ = pause => {}
            }
            let now = std::time::Instant::now();
            let passed = now.duration_since(last).min(MOST_BEHIND);
            last = now;
            self.steps(passed * speed, || false).await;
            if now.duration_since(noted) > LOOK {
                noted = now;
                self.note();
            }
        };
        tokio::time::resume();
        order
    }

    /// Moves the time, until nobody waits for it any more.
    async fn advance(&self, by: Duration, done: oneshot::Sender<()>) {
        let begun = std::time::Instant::now();
        self.steps(by, || done.is_closed()).await;
        // The time that this took has passed outside, too.
        self.steps(begun.elapsed(), || done.is_closed()).await;
        // What became due at the last instant is done, too.
        sleep(TICK).await;
        let _ = done.send(());
    }

    /// Moves paused time in steps, until there is a reason to stop.
    async fn steps(&self, by: Duration, mut is_over: impl FnMut() -> bool) {
        // Timers are late by up to a tick; steps by their length would add that up.
        let end = Instant::now() + by;
        while Instant::now() < end && !is_over() {
            sleep_until(end.min(Instant::now() + STEP)).await;
            let server = self.server.lock().clone();
            if let Some(server) = server {
                let _still = Standstill::begin(None);
                // Fails if the cluster stops.
                let _ = server.store().durable(server.store().version()).await;
            }
        }
    }

    /// Follows the machine's clock.
    fn follow(&self) {
        let wanted = Clock::system().now().as_microsecond().saturating_add(self.ahead);
        let off = wanted.abs_diff(self.clock.now().as_microsecond());
        if u128::from(off) > DRIFT.as_micros()
            && let Ok(wanted) = Timestamp::from_microsecond(wanted)
        {
            self.epoch.set(wanted);
        }
    }

    /// Remembers how far the clock is ahead now.
    fn note(&mut self) {
        let machine = Clock::system().now().as_microsecond();
        self.ahead = self.clock.now().as_microsecond().saturating_sub(machine);
        let Some(file) = self.file.as_deref().filter(|file| file.parent().is_some_and(Path::is_dir)) else {
            return;
        };
        let seconds = self.ahead / 1_000_000;
        let written = match seconds > 0 {
            // At once, so that a kill leaves the old file or the new one.
            true => {
                let draft = file.with_extension("draft");
                std::fs::write(&draft, format!("{seconds}\n")).and_then(|()| std::fs::rename(&draft, file))
            }
            false => match std::fs::remove_file(file) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        };
        if let Err(error) = written {
            tracing::warn!(error = %Chain(&error), file = %file.display(), "the cluster's clock is not kept");
        }
    }
}

/// How far the clock of a data directory is ahead, in microseconds.
fn read(file: &Path) -> Result<u64, TimeError> {
    match std::fs::read_to_string(file) {
        Ok(text) => match text.trim().parse::<u64>() {
            Ok(seconds) => Ok(seconds.saturating_mul(1_000_000)),
            Err(_) => Err(TimeError::File { path: file.to_owned() }),
        },
        // Whatever else is wrong with the directory is said when it is opened.
        Err(_) => Ok(0),
    }
}
