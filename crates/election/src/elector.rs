//! The shell of the election: reads and writes the lease, waits, and tells.

use std::{fmt, sync::Arc, time::Duration};

use flyball_api::{Key, ResourceType, Timestamp};
use flyball_client::{Client, Error, EventKind, Fence, FenceClock, WatchEvent, WatchParams};
use flyball_runtime::metrics::{LEADER_SLOWPATH, LEADER_STATUS, Metrics, WRITES_REFUSED};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use serde_json::Value;
use smol_str::format_smolstr;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

use crate::{Action, JITTER_FACTOR, Observation, Record, Settings, step::step};

const LEASES: ResourceType = ResourceType::new("coordination.k8s.io", "v1", "leases", "Lease", true);
/// How much later than the lease's end a leader that cannot renew still counts as healthy: it should have
/// exited by then.
const HEALTH_TOLERANCE: Duration = Duration::from_secs(20);
/// Standbys that watch the same lease see it run out at the same moment; all but one of their attempts would be in vain.
const TAKING_SPREAD: Duration = Duration::from_millis(10);
/// The server is asked to end the watch of the lease after this long.
const WATCH_SECONDS: u32 = 600;
/// A watch that ends sooner is a failure: opening the next one at once would be a hot loop.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// It could not be renewed in time.
    #[error("the lease {lease} was lost: it could not be renewed within {deadline:?}")]
    Late {
        /// `namespace/name`.
        lease: String,
        deadline: Duration,
    },
    /// The process did not run, or had nobody who would let it renew, until it may have been another's.
    #[error("the lease {lease} was lost: it ran out before it was renewed ({refused} writes were held back)")]
    RanOut {
        /// `namespace/name`.
        lease: String,
        /// Writes that the fence has refused.
        refused: u64,
    },
    /// Nobody tries to keep it any more.
    #[error("the lease was lost: the election broke off")]
    BrokenOff,
    #[error("the lease {lease} was lost: {holder} holds it")]
    Taken {
        /// `namespace/name`.
        lease: String,
        holder: String,
    },
}

/// What an attempt to get or keep the lease led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Leads,
    HeldByAnother,
    Failed,
    /// Not made: the lease may be another's by now.
    RanOut,
}

/// The lease as events refer to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaseRef {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
}

type Tell = Box<dyn Fn(&LeaseRef, String) + Send + Sync>;
type TellVacancy = Box<dyn Fn(Instant) + Send + Sync>;
type Wall = Box<dyn Fn() -> Timestamp + Send + Sync>;
type Random = Box<dyn FnMut() -> f64 + Send + Sync>;

/// One candidate for one lease.
pub struct Elector {
    settings: Settings,
    client: Client,
    metrics: Metrics,
    time: Wall,
    random: Random,
    tell: Tell,
    tell_vacancy: TellVacancy,
    fence: Fence,
    state: Arc<Mutex<State>>,
    /// The lease as the server last returned it; its version guards the next write.
    lease: Value,
    /// Since when the present holder cannot have written, by the same rules as ours.
    vacant: Option<Instant>,
}

#[derive(Debug, Default)]
struct State {
    seen: Option<Observation>,
    reported: String,
}

impl fmt::Debug for Elector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Elector({} as {})", self.describe(), self.settings.identity)
    }
}

impl Elector {
    /// A candidate that has not tried yet. `time` is the wall clock that is written into the lease.
    pub fn new(
        settings: Settings,
        client: Client,
        metrics: Metrics,
        time: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        metrics.gauge(&LEADER_STATUS, &[&settings.name]).set(0.0);
        metrics.counter(&LEADER_SLOWPATH, &[&settings.name]);
        Self {
            settings,
            client,
            metrics,
            time: Box::new(time),
            random: Box::new(rand::random::<f64>),
            tell: Box::new(|_, _| {}),
            tell_vacancy: Box::new(|_| {}),
            fence: Fence::new(FenceClock::Tokio(Instant::now())),
            state: Arc::default(),
            lease: Value::Null,
            vacant: None,
        }
    }

    /// Calls `tell` with what the event on the lease should say (`x became leader`).
    pub fn on_event(mut self, tell: impl Fn(&LeaseRef, String) + Send + Sync + 'static) -> Self {
        self.tell = Box::new(tell);
        self
    }

    /// Calls `tell` when the holder can no longer write, as it has not renewed for that long, and its lease cannot be
    /// taken yet: the time to bring caches up to date. It may renew all the same.
    pub fn on_vacancy(mut self, tell: impl Fn(Instant) + Send + Sync + 'static) -> Self {
        self.tell_vacancy = Box::new(tell);
        self
    }

    /// Keeps `fence` open while the lease is ours, and shows in the metrics what it refuses.
    pub fn with_fence(mut self, fence: Fence) -> Self {
        let (lease, shown) = (self.settings.name.clone(), fence.clone());
        self.metrics.on_scrape(move |metrics| {
            metrics.counter(&WRITES_REFUSED, &[&lease]).at_least(shown.refused() as f64);
        });
        self.fence = fence;
        self
    }

    /// Draws the pauses between attempts from here: numbers from 0 to below 1.
    pub fn with_random(mut self, random: impl FnMut() -> f64 + Send + Sync + 'static) -> Self {
        self.random = Box::new(random);
        self
    }

    pub fn identity(&self) -> &str {
        &self.settings.identity
    }

    /// The check that `/healthz` shows as `leaderElection`.
    pub fn health(&self) -> LeaseHealth {
        LeaseHealth { settings: self.settings.clone(), state: self.state.clone() }
    }

    /// Tries until we lead. Returns a moment since which no former leader can have written.
    pub async fn acquire(&mut self) -> Instant {
        tracing::info!(lease = self.describe(), identity = self.settings.identity, "waiting for the lease");
        loop {
            let attempt = self.attempt().await;
            self.report_holder();
            match attempt {
                Attempt::Leads => break,
                Attempt::HeldByAnother => self.stand_by().await,
                Attempt::Failed | Attempt::RanOut => sleep(self.retry_pause()).await,
            }
        }
        self.metrics.gauge(&LEADER_STATUS, &[&self.settings.name]).set(1.0);
        tracing::info!(lease = self.describe(), "leading");
        self.event("became leader");
        self.vacant.take().unwrap_or_else(Instant::now)
    }

    /// Watches the lease until there is something to try: it has run out, was given back, or is gone. Without a watch,
    /// until a retry period has passed, as upstream.
    async fn stand_by(&mut self) {
        let (opened, patience) = (Instant::now(), self.retry_pause());
        let taking = TAKING_SPREAD.mul_f64((self.random)());
        let mut events = self.holder_seen().then(|| self.watch());
        loop {
            let seen = self.seen();
            let vacancy = seen.as_ref().map(|seen| seen.since + self.settings.validity());
            let end = seen.as_ref().and_then(Observation::end).map(|end| end + taking);
            tokio::select! {
                event = next(&mut events) => match event {
                    Some(Ok(event)) => self.heard(&event),
                    Some(Err(error)) => {
                        tracing::debug!(lease = self.describe(), %error, "the watch of the lease failed");
                        events = None;
                    }
                    None if opened.elapsed() < SHORTEST_WATCH => events = None,
                    None => return,
                },
                () = sleep_until(opened + patience), if events.is_none() => return,
                () = until(vacancy), if self.vacant.is_none() => self.fall_vacant(),
                () = until(end) => return,
            }
            if events.is_some() && !self.holder_seen() {
                return;
            }
        }
    }

    fn watch(&self) -> BoxStream<'static, Result<WatchEvent, Error>> {
        let params = WatchParams {
            namespace: Some(self.settings.namespace.as_str().into()),
            field_selector: Some(format_smolstr!("metadata.name={}", self.settings.name)),
            resource_version: self.lease["metadata"]["resourceVersion"].as_str().map(Into::into),
            timeout_seconds: Some(WATCH_SECONDS),
            ..WatchParams::default()
        };
        let client = self.client.clone();
        futures::stream::once(async move { client.watch(&LEASES, &params).await }).try_flatten().boxed()
    }

    fn heard(&mut self, event: &WatchEvent) {
        let lease: Option<Value> = match event.kind {
            EventKind::Added | EventKind::Modified => serde_json::from_slice(&event.object).ok(),
            EventKind::Deleted => None,
            EventKind::Bookmark => return,
        };
        self.note(lease);
        self.report_holder();
    }

    /// Takes in what the server says of the lease.
    fn note(&mut self, lease: Option<Value>) {
        let before = self.seen();
        match lease {
            Some(lease) => {
                let record = Record::of_lease(&lease);
                Observation::note(&mut self.state.lock().seen, record, Instant::now());
                self.lease = lease;
            }
            None => self.state.lock().seen = None,
        }
        if self.seen() != before {
            self.vacant = None;
        }
    }

    fn fall_vacant(&mut self) {
        let now = Instant::now();
        self.vacant = Some(now);
        tracing::info!(lease = self.describe(), "the lease is not being renewed; getting ready");
        (self.tell_vacancy)(now);
    }

    fn retry_pause(&mut self) -> Duration {
        self.settings.retry_period.mul_f64(1.0 + JITTER_FACTOR * (self.random)())
    }

    /// Whether there is a lease and somebody has it.
    fn holder_seen(&self) -> bool {
        self.seen().is_some_and(|seen| !seen.record.holder.is_empty())
    }

    /// Keeps the lease until that fails for as long as the renew deadline. Ends only by losing it.
    // Upstream: client-go leaderelection.go, renew: goes on trying until the deadline even when it has seen another
    // holder. A leader that slept past its lease must not act for ten more seconds beside the new one.
    pub async fn renew(&mut self) -> Lost {
        let lost = loop {
            let deadline = self.settings.renew_deadline;
            let fence = self.fence.clone();
            let renewed = tokio::select! {
                renewed = timeout(deadline, self.attempts()) => renewed,
                () = fence.breached() => Ok(Attempt::RanOut),
            };
            self.report_holder();
            match renewed {
                Ok(Attempt::HeldByAnother) => {
                    let holder = self.seen().map(|seen| seen.record.holder).unwrap_or_default();
                    break Lost::Taken { lease: self.describe(), holder };
                }
                Ok(Attempt::RanOut) => {
                    break Lost::RanOut { lease: self.describe(), refused: self.fence.refused() };
                }
                Ok(_) => {
                    tokio::select! {
                        () = sleep(self.settings.retry_period) => {}
                        () = fence.breached() => {}
                    }
                }
                Err(_) => break Lost::Late { lease: self.describe(), deadline },
            }
        };
        self.fence.close();
        self.metrics.gauge(&LEADER_STATUS, &[&self.settings.name]).set(0.0);
        self.event("stopped leading");
        lost
    }

    /// Gives the lease back, so that a standby need not wait for its end. Everything it guards must have ended.
    pub async fn release(&mut self) -> Result<(), Error> {
        self.fence.close();
        let lease = match self.read().await? {
            Some(lease) if Record::of_lease(&lease).holder == self.settings.identity => lease,
            _ => return Ok(()),
        };
        let now = crate::record::micros((self.time)());
        let free = Record {
            holder: String::new(),
            duration_seconds: 1,
            acquired: Some(now),
            renewed: Some(now),
            transitions: Record::of_lease(&lease).transitions,
        };
        self.lease = lease;
        self.write(&free).await?;
        self.metrics.gauge(&LEADER_STATUS, &[&self.settings.name]).set(0.0);
        self.event("stopped leading");
        Ok(())
    }

    /// Attempts until one is decisive.
    async fn attempts(&mut self) -> Attempt {
        let mut pace = interval(self.settings.retry_period);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            pace.tick().await;
            // Who slept for too long may not renew what others count as theirs by now.
            if !self.fence.is_open() {
                return Attempt::RanOut;
            }
            match self.attempt().await {
                Attempt::Failed => {}
                decisive => return decisive,
            }
        }
    }

    async fn attempt(&mut self) -> Attempt {
        if let Some(record) = self.at_first_sight() {
            match self.write(&record).await {
                Ok(()) => return Attempt::Leads,
                Err(error) => {
                    tracing::debug!(lease = self.describe(), %error, "the lease needs a fresh look")
                }
            }
        }
        match self.read().await {
            Ok(lease) => self.note(lease),
            Err(error) => {
                tracing::warn!(
                    lease = self.describe(),
                    error = &error as &dyn std::error::Error,
                    "cannot read the lease"
                );
                return Attempt::Failed;
            }
        }
        let action = step(&self.settings, self.seen().as_ref(), Instant::now(), (self.time)());
        let written = match &action {
            Action::Wait => return Attempt::HeldByAnother,
            Action::Create(record) => self.create(record).await,
            Action::Renew(record) => {
                self.metrics.counter(&LEADER_SLOWPATH, &[&self.settings.name]).inc();
                self.write(record).await
            }
            Action::Take(record) => self.write(record).await,
        };
        if let Err(error) = &written {
            // Somebody was quicker; the next look will show who.
            if error.is_conflict() || error.is_already_exists() {
                tracing::debug!(lease = self.describe(), %error, "the lease changed under us");
            } else {
                tracing::warn!(
                    lease = self.describe(),
                    error = error as &dyn std::error::Error,
                    "cannot write the lease"
                );
            }
        }
        if written.is_ok() { Attempt::Leads } else { Attempt::Failed }
    }

    /// What to write on the strength of what was last seen, before looking: a leader renews, and who saw the lease run
    /// out takes it. The version of what was seen guards the write.
    fn at_first_sight(&self) -> Option<Record> {
        let (seen, now) = (self.seen()?, Instant::now());
        let has_version = self.lease["metadata"]["resourceVersion"].as_str().is_some_and(|v| !v.is_empty());
        match step(&self.settings, Some(&seen), now, (self.time)()) {
            Action::Renew(record) if has_version && seen.is_valid(now) => Some(record),
            Action::Take(record) if has_version => Some(record),
            _ => None,
        }
    }

    async fn read(&self) -> Result<Option<Value>, Error> {
        match self.client.get_dynamic(&LEASES, &self.key()).await {
            Ok(lease) => Ok(Some(lease)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn create(&mut self, record: &Record) -> Result<(), Error> {
        let Settings { namespace, name, .. } = &self.settings;
        let (asked, lease) = (self.fence.now(), record.new_lease(namespace, name));
        self.lease = self.client.create_dynamic(&LEASES, namespace.as_str(), &lease).await?;
        self.fence.hold_until(asked + self.settings.validity());
        self.remember(record);
        Ok(())
    }

    async fn write(&mut self, record: &Record) -> Result<(), Error> {
        let (asked, lease) = (self.fence.now(), record.in_lease(&self.lease));
        self.lease = self.client.update_dynamic(&LEASES, &self.key(), None, &lease).await?;
        // Others count from when they see this, which is later than when it was sent.
        if record.holder == self.settings.identity {
            self.fence.hold_until(asked + self.settings.validity());
        }
        self.remember(record);
        Ok(())
    }

    fn remember(&self, record: &Record) {
        self.state.lock().seen = Some(Observation { record: record.clone(), since: Instant::now() });
    }

    fn seen(&self) -> Option<Observation> {
        self.state.lock().seen.clone()
    }

    fn report_holder(&self) {
        let mut state = self.state.lock();
        let holder = state.seen.as_ref().map(|seen| seen.record.holder.clone()).unwrap_or_default();
        if holder != state.reported {
            tracing::info!(lease = self.describe(), %holder, "the lease has a new holder");
            state.reported = holder;
        }
    }

    fn event(&self, what: &str) {
        let text = |field: &str| self.lease["metadata"][field].as_str().unwrap_or_default().to_owned();
        let lease = LeaseRef {
            namespace: self.settings.namespace.clone(),
            name: self.settings.name.clone(),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
        };
        (self.tell)(&lease, format!("{} {what}", self.settings.identity));
    }

    fn key(&self) -> Key {
        Key::new(&self.settings.namespace, &self.settings.name)
    }

    fn describe(&self) -> String {
        format!("{}/{}", self.settings.namespace, self.settings.name)
    }
}

/// The next event of a watch, if there is one.
async fn next(
    events: &mut Option<BoxStream<'static, Result<WatchEvent, Error>>>,
) -> Option<Result<WatchEvent, Error>> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

/// Waits for a moment that may never come.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Whether a leader renews its lease; a standby is always well.
#[derive(Debug, Clone)]
pub struct LeaseHealth {
    settings: Settings,
    state: Arc<Mutex<State>>,
}

impl LeaseHealth {
    pub const NAME: &str = "leaderElection";

    /// Fails on a leader whose lease ran out so long ago that it should have exited.
    pub fn check(&self) -> Result<(), String> {
        let state = self.state.lock();
        match &state.seen {
            Some(seen)
                if seen.record.holder == self.settings.identity
                    && seen.since.elapsed() > self.settings.lease_duration + HEALTH_TOLERANCE =>
            {
                Err(format!("failed election to renew leadership on lease {}", self.settings.name))
            }
            _ => Ok(()),
        }
    }
}
