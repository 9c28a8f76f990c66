//! The shell of leader election: reads, writes and watches the lease.

use std::{fmt, sync::Arc, time::Duration};

use flyball_api::{Key, ResourceType, Timestamp};
use flyball_client::{Client, Error, EventKind, Fence, FenceClock, WatchEvent};
use flyball_runtime::metrics::{LEADER_SLOWPATH, LEADER_STATUS, Metrics, WRITES_REFUSED};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

use crate::{Action, JITTER_FACTOR, Observation, Record, Settings, step::step, watch_of};

const LEASES: ResourceType = ResourceType::new("coordination.k8s.io", "v1", "leases", "Lease", true);
/// How much later than the lease's end a leader that cannot renew still counts as healthy: it should have
/// exited by then.
const HEALTH_TOLERANCE: Duration = Duration::from_secs(20);
/// The jitter of takeovers: standbys that watch the same lease see it expire at the same time, and only one can get it.
const TAKING_SPREAD: Duration = Duration::from_millis(10);
/// The timeout of the watch of the lease.
const WATCH_TIMEOUT: Duration = Duration::from_secs(600);
/// A watch that ends sooner is a failure: opening the next one at once would be a hot loop.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    #[error("the lease {lease} was lost: it could not be renewed within {deadline:?}")]
    Late {
        /// `namespace/name`.
        lease: String,
        deadline: Duration,
    },
    /// The process was stopped, or could not renew, until another process may have taken the lease.
    #[error("the lease {lease} was lost: it expired before it was renewed ({refused} writes were refused)")]
    RanOut {
        /// `namespace/name`.
        lease: String,
        /// Writes that the fence has refused.
        refused: u64,
    },
    #[error("the lease was lost: the elector ended")]
    BrokenOff,
    #[error("the lease {lease} was lost: {holder} holds it")]
    Taken {
        /// `namespace/name`.
        lease: String,
        holder: String,
    },
}

/// The result of an attempt to get or keep the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Leads,
    HeldByAnother,
    Failed,
    /// Not made: another process may hold the lease by now.
    RanOut,
}

/// The lease, for events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaseRef {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
}

type RecordEvent = Box<dyn Fn(&LeaseRef, String) + Send + Sync>;
type VacancyHandler = Box<dyn Fn(Instant) + Send + Sync>;
type Wall = Box<dyn Fn() -> Timestamp + Send + Sync>;
type Random = Box<dyn FnMut() -> f64 + Send + Sync>;

/// One candidate for one lease.
pub struct Elector {
    settings: Settings,
    client: Client,
    metrics: Metrics,
    time: Wall,
    random: Random,
    record_event: RecordEvent,
    vacancy_handler: VacancyHandler,
    fence: Fence,
    state: Arc<Mutex<State>>,
    /// The lease as the server last returned it; its version is the precondition of the next write.
    lease: Value,
    vacant: Option<Vacancy>,
    /// Until when the last holder may still write, if its lease disappeared without a release (it was deleted, or etcd was
    /// restored).
    held_until: Option<Instant>,
}

/// The time since which the current holder cannot have written, if it is Flyball with the same flags.
#[derive(Debug, Clone, Copy)]
struct Vacancy {
    since: Instant,
    /// Whether the holder seems to have the same flags. The lease shows only its duration, not the holder's renew deadline.
    is_certain: bool,
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
    /// `time` is the wall clock that is written into the lease.
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
            record_event: Box::new(|_, _| {}),
            vacancy_handler: Box::new(|_| {}),
            fence: Fence::new(FenceClock::Tokio(Instant::now())),
            state: Arc::default(),
            lease: Value::Null,
            vacant: None,
            held_until: None,
        }
    }

    /// Calls `record` with the message of an event about the lease (`x became leader`).
    pub fn on_event(mut self, record: impl Fn(&LeaseRef, String) + Send + Sync + 'static) -> Self {
        self.record_event = Box::new(record);
        self
    }

    /// Calls `prepare` when the holder has not renewed for so long that it can no longer write, and its lease cannot be taken
    /// yet: caches can be brought up to date meanwhile. The holder may still renew.
    pub fn on_vacancy(mut self, prepare: impl Fn(Instant) + Send + Sync + 'static) -> Self {
        self.vacancy_handler = Box::new(prepare);
        self
    }

    /// Extends `fence` with each renewal, and shows in the metrics how many writes it refuses.
    pub fn with_fence(mut self, fence: Fence) -> Self {
        let (lease, shown) = (self.settings.name.clone(), fence.clone());
        self.metrics.on_scrape(move |metrics| {
            metrics.counter(&WRITES_REFUSED, &[&lease]).at_least(shown.refused() as f64);
        });
        self.fence = fence;
        self
    }

    /// The source of jitter: numbers from 0 to below 1.
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

    /// Tries until this process leads. Returns a time since which no former leader can have written.
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
        let vacant = self.vacant.take().filter(|vacant| vacant.is_certain);
        vacant.map_or_else(Instant::now, |vacant| vacant.since)
    }

    /// Watches the lease until it has expired, was released, or is gone. If it cannot be watched, waits a retry period, as
    /// upstream.
    async fn stand_by(&mut self) {
        let (opened, patience) = (Instant::now(), self.retry_pause());
        let taking = TAKING_SPREAD.mul_f64((self.random)());
        let mut events = self.holder_seen().then(|| self.watch());
        let free = self.still_held(opened).map(|until| until + taking);
        loop {
            let seen = self.seen();
            let vacancy = seen.as_ref().and_then(|seen| self.vacancy(seen));
            // An expired lease is not for this process to take, if the server assigns it.
            let end = seen.as_ref().filter(|_| !self.settings.coordinated).and_then(Observation::end);
            // The lease may be of a time before a restore, and may not be taken before its last holder has stopped.
            let end = end.map(|end| end.max(self.held_until.unwrap_or(end)) + taking);
            tokio::select! {
                biased;
                event = next(&mut events) => match event {
                    Some(Ok(event)) => self.watched(&event),
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
                () = until(free) => return,
            }
            let is_ours = self.seen().is_some_and(|seen| seen.record.holder == self.settings.identity);
            if events.is_some() && (is_ours || !self.holder_seen()) {
                return;
            }
        }
    }

    fn watch(&self) -> BoxStream<'static, Result<WatchEvent, Error>> {
        let Settings { namespace, name, .. } = &self.settings;
        let params = watch_of(namespace, name, &self.lease, WATCH_TIMEOUT);
        let client = self.client.clone();
        futures::stream::once(async move { client.watch(&LEASES, &params).await }).try_flatten().boxed()
    }

    fn watched(&mut self, event: &WatchEvent) {
        let lease: Option<Value> = match event.kind {
            EventKind::Added | EventKind::Modified => event.object.decode_as().ok(),
            EventKind::Deleted => None,
            EventKind::Bookmark => return,
        };
        self.note(lease);
        self.report_holder();
    }

    /// Records the state of the lease from the server.
    fn note(&mut self, lease: Option<Value>) {
        let before = self.seen();
        if let Some(before) = before.as_ref().filter(|before| self.is_of_another(before))
            && !lease.as_ref().is_some_and(|lease| is_later(lease, &self.lease))
        {
            // The holder notices that at its next renewal only, and may be slow at that.
            self.held_until = before.end().max(self.held_until);
        }
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

    fn is_of_another(&self, seen: &Observation) -> bool {
        !seen.record.holder.is_empty() && seen.record.holder != self.settings.identity
    }

    /// Until when the lease must not be taken although nobody holds it.
    fn still_held(&self, now: Instant) -> Option<Instant> {
        self.held_until.filter(|until| *until > now)
    }

    /// What to do about the lease as last seen.
    fn next_action(&self, now: Instant) -> Action {
        match step(&self.settings, self.seen().as_ref(), now, (self.time)()) {
            Action::Create(_) | Action::Take(_) if self.still_held(now).is_some() => Action::Wait,
            action => action,
        }
    }

    /// When the holder stops writing, if it renews and writes for the same share of its lease as this process would.
    fn vacancy(&self, seen: &Observation) -> Option<Instant> {
        if self.has_our_duration(seen) {
            return seen.since.checked_add(self.settings.validity());
        }
        let share = self.settings.validity().div_duration_f64(self.settings.recorded_duration());
        seen.since.checked_add(seen.record.duration().mul_f64(share))
    }

    fn has_our_duration(&self, seen: &Observation) -> bool {
        seen.record.duration() == self.settings.recorded_duration()
    }

    fn fall_vacant(&mut self) {
        let now = Instant::now();
        let is_certain = self.seen().is_some_and(|seen| self.has_our_duration(&seen));
        self.vacant = Some(Vacancy { since: now, is_certain });
        tracing::info!(lease = self.describe(), "the lease is not being renewed; preparing to take over");
        (self.vacancy_handler)(now);
    }

    fn retry_pause(&mut self) -> Duration {
        self.settings.retry_period.mul_f64(1.0 + JITTER_FACTOR * (self.random)())
    }

    /// Whether there is a lease with a holder.
    fn holder_seen(&self) -> bool {
        self.seen().is_some_and(|seen| !seen.record.holder.is_empty())
    }

    /// Renews the lease. Returns when that has failed for the renew deadline, or the lease is lost in another way.
    // Upstream: client-go leaderelection.go, renew: tries until the deadline even if it has seen another holder. A leader
    // that was stopped for longer than its lease must not act for ten more seconds beside the new one.
    pub async fn renew(&mut self) -> Lost {
        let lost = loop {
            let deadline = self.settings.renew_deadline;
            let fence = self.fence.clone();
            let renewed = tokio::select! {
                biased;
                () = fence.breached() => Ok(Attempt::RanOut),
                // What is done without a write, such as answering for an address, must end as well.
                () = fence.expired() => Ok(Attempt::RanOut),
                renewed = timeout(deadline, self.attempts()) => renewed,
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
                        biased;
                        () = fence.breached() => {}
                        () = sleep(self.settings.retry_period) => {}
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

    /// Releases the lease, so that a standby need not wait until it expires. All controllers must have ended.
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
            ..Record::default()
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
            // After a long stop, another process may hold the lease.
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
                    tracing::debug!(lease = self.describe(), %error, "the lease has to be read again")
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
        let action = self.next_action(Instant::now());
        let written = match &action {
            Action::Wait => return Attempt::HeldByAnother,
            Action::EndTerm => {
                tracing::info!(
                    lease = self.describe(),
                    "the API server has chosen another holder for the lease; not renewing it"
                );
                return Attempt::Failed;
            }
            Action::Create(record) => self.create(record).await,
            Action::Renew(record) => {
                self.metrics.counter(&LEADER_SLOWPATH, &[&self.settings.name]).inc();
                self.write(record).await
            }
            Action::Take(record) => self.write(record).await,
        };
        if let Err(error) = &written {
            // Another process was faster; the next read will show which.
            if error.is_conflict() || error.is_already_exists() {
                tracing::debug!(lease = self.describe(), %error, "the lease was changed concurrently");
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

    /// What can be written without reading the lease first: a leader renews it, and a standby that saw it expire takes it. The
    /// version that was last seen is the precondition.
    fn at_first_sight(&self) -> Option<Record> {
        let (seen, now) = (self.seen()?, Instant::now());
        let has_version = self.lease["metadata"]["resourceVersion"].as_str().is_some_and(|v| !v.is_empty());
        match self.next_action(now) {
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
        // Other processes count from when they see this, which is later than when it was sent.
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
        (self.record_event)(&lease, format!("{} {what}", self.settings.identity));
    }

    fn key(&self) -> Key {
        Key::new(&self.settings.namespace, &self.settings.name)
    }

    fn describe(&self) -> String {
        format!("{}/{}", self.settings.namespace, self.settings.name)
    }
}

/// Whether a lease is a later state of the same object.
fn is_later(lease: &Value, before: &Value) -> bool {
    let text = |lease: &Value, field: &str| lease["metadata"][field].as_str().unwrap_or_default().to_owned();
    let version = |lease: &Value| text(lease, "resourceVersion").parse::<u64>().unwrap_or_default();
    text(lease, "uid") == text(before, "uid") && version(lease) >= version(before)
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

/// Waits until a time; forever, if there is none.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// The health check of leader election; a standby is always healthy.
#[derive(Debug, Clone)]
pub struct LeaseHealth {
    settings: Settings,
    state: Arc<Mutex<State>>,
}

impl LeaseHealth {
    pub const NAME: &str = "leaderElection";

    /// Fails on a leader whose lease expired so long ago that it should have exited.
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
