//! The shell of the election: reads and writes the lease, waits, and tells.

use std::{fmt, sync::Arc, time::Duration};

use flyball_api::{Key, ResourceType, Timestamp};
use flyball_client::{Client, Error};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::{Action, JITTER_FACTOR, Observation, Record, Settings, step::step};
use crate::metrics::{LEADER_SLOWPATH, LEADER_STATUS, Metrics};

const LEASES: ResourceType = ResourceType::new("coordination.k8s.io", "v1", "leases", "Lease", true);
/// How much later than the lease's end a leader that cannot renew still counts as healthy: it should have
/// exited by then.
const HEALTH_TOLERANCE: Duration = Duration::from_secs(20);

/// We no longer lead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// It could not be renewed in time.
    #[error("the lease {lease} was lost: it could not be renewed within {deadline:?}")]
    Late {
        /// `namespace/name`.
        lease: String,
        /// The time there was.
        deadline: Duration,
    },
    /// Somebody else has it.
    #[error("the lease {lease} was lost: {holder} holds it")]
    Taken {
        /// `namespace/name`.
        lease: String,
        /// Who.
        holder: String,
    },
}

/// What an attempt to get or keep the lease led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Leads,
    HeldByAnother,
    Failed,
}

/// The lease as events refer to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaseRef {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Version last seen.
    pub resource_version: String,
}

type Tell = Box<dyn Fn(&LeaseRef, String) + Send + Sync>;
type Wall = Box<dyn Fn() -> Timestamp + Send + Sync>;
type Random = Box<dyn FnMut() -> f64 + Send>;

/// One candidate for one lease.
pub struct Elector {
    settings: Settings,
    client: Client,
    metrics: Metrics,
    time: Wall,
    random: Random,
    tell: Tell,
    state: Arc<Mutex<State>>,
    /// The lease as the server last returned it; its version guards the next write.
    lease: Value,
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
            state: Arc::default(),
            lease: Value::Null,
        }
    }

    /// Calls `tell` with what the event on the lease should say (`x became leader`).
    pub fn on_event(mut self, tell: impl Fn(&LeaseRef, String) + Send + Sync + 'static) -> Self {
        self.tell = Box::new(tell);
        self
    }

    /// Draws the pauses between attempts from here: numbers from 0 to below 1.
    pub fn with_random(mut self, random: impl FnMut() -> f64 + Send + 'static) -> Self {
        self.random = Box::new(random);
        self
    }

    /// Who we are.
    pub fn identity(&self) -> &str {
        &self.settings.identity
    }

    /// The check that `/healthz` shows as `leaderElection`.
    pub fn health(&self) -> LeaseHealth {
        LeaseHealth { settings: self.settings.clone(), state: self.state.clone() }
    }

    /// Tries until we lead.
    pub async fn acquire(&mut self) {
        tracing::info!(lease = self.describe(), identity = self.settings.identity, "waiting for the lease");
        loop {
            let attempt = self.attempt().await;
            self.report_holder();
            if attempt == Attempt::Leads {
                break;
            }
            let spread = 1.0 + JITTER_FACTOR * (self.random)();
            sleep(self.settings.retry_period.mul_f64(spread)).await;
        }
        self.metrics.gauge(&LEADER_STATUS, &[&self.settings.name]).set(1.0);
        tracing::info!(lease = self.describe(), "leading");
        self.event("became leader");
    }

    /// Keeps the lease until that fails for as long as the renew deadline. Ends only by losing it.
    // Upstream: client-go leaderelection.go, renew: goes on trying until the deadline even when it has seen another
    // holder. A leader that slept past its lease must not act for ten more seconds beside the new one.
    pub async fn renew(&mut self) -> Lost {
        let lost = loop {
            let deadline = self.settings.renew_deadline;
            let renewed = timeout(deadline, self.attempts()).await;
            self.report_holder();
            match renewed {
                Ok(Attempt::HeldByAnother) => {
                    let holder = self.seen().map(|seen| seen.record.holder).unwrap_or_default();
                    break Lost::Taken { lease: self.describe(), holder };
                }
                Ok(_) => sleep(self.settings.retry_period).await,
                Err(_) => break Lost::Late { lease: self.describe(), deadline },
            }
        };
        self.metrics.gauge(&LEADER_STATUS, &[&self.settings.name]).set(0.0);
        self.event("stopped leading");
        lost
    }

    /// Gives the lease back, so that a standby need not wait for its end. Everything it guards must have ended.
    pub async fn release(&mut self) -> Result<(), Error> {
        let lease = match self.read().await? {
            Some(lease) if Record::of_lease(&lease).holder == self.settings.identity => lease,
            _ => return Ok(()),
        };
        let now = super::record::micros((self.time)());
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
            match self.attempt().await {
                Attempt::Failed => {}
                decisive => return decisive,
            }
        }
    }

    async fn attempt(&mut self) -> Attempt {
        // A leader first writes on the strength of what it last saw, and reads only if that is refused.
        let held = self.seen().filter(|seen| seen.record.holder == self.settings.identity);
        if let Some(seen) = &held
            && seen.is_valid(Instant::now())
            && let Action::Renew(record) = step(&self.settings, Some(seen), Instant::now(), (self.time)())
        {
            match self.write(&record).await {
                Ok(()) => return Attempt::Leads,
                Err(error) => tracing::debug!(lease = self.describe(), %error, "renewing needs a fresh look"),
            }
        }
        match self.read().await {
            Ok(Some(lease)) => {
                let record = Record::of_lease(&lease);
                Observation::note(&mut self.state.lock().seen, record, Instant::now());
                self.lease = lease;
            }
            Ok(None) => self.state.lock().seen = None,
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

    async fn read(&self) -> Result<Option<Value>, Error> {
        match self.client.get_dynamic(&LEASES, &self.key()).await {
            Ok(lease) => Ok(Some(lease)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn create(&mut self, record: &Record) -> Result<(), Error> {
        let Settings { namespace, name, .. } = &self.settings;
        let lease = record.new_lease(namespace, name);
        self.lease = self.client.create_dynamic(&LEASES, namespace.as_str(), &lease).await?;
        self.remember(record);
        Ok(())
    }

    async fn write(&mut self, record: &Record) -> Result<(), Error> {
        let lease = record.in_lease(&self.lease);
        self.lease = self.client.update_dynamic(&LEASES, &self.key(), None, &lease).await?;
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

/// Whether a leader renews its lease; a standby is always well.
#[derive(Debug, Clone)]
pub struct LeaseHealth {
    settings: Settings,
    state: Arc<Mutex<State>>,
}

impl LeaseHealth {
    /// The check's name.
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
