//! The event recorder.
//!
//! Recording never waits: an event is put into a bounded channel, or dropped and counted. One task per
//! controller takes them out, lets the [`correlator`] merge and filter them as client-go does, and writes.

mod correlator;
mod sink;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flyball_api::{ObjectMeta, Resource, ResourceVersion, Timestamp, Uid};
use flyball_client::Client;
use serde::Serialize;
use smol_str::SmolStr;
use tokio::sync::mpsc;

use crate::clock::Clock;

/// How many events may wait to be written.
const WAITING: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum EventType {
    Normal,
    Warning,
}

/// The object an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    pub kind: SmolStr,
    /// Namespace, empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub namespace: SmolStr,
    pub name: SmolStr,
    /// Uid; empty for an object that is only known by name.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub uid: SmolStr,
    pub api_version: SmolStr,
    /// The version that the controller has seen; empty if it is not known.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub resource_version: SmolStr,
}

impl ObjectRef {
    pub fn of<T: Resource>(object: &T) -> Self {
        let kind = T::TYPE;
        Self::from_meta(kind.api_version(), kind.kind, object.meta())
    }

    pub fn from_meta(api_version: impl Into<SmolStr>, kind: impl Into<SmolStr>, meta: &ObjectMeta) -> Self {
        let version = match meta.resource_version {
            ResourceVersion(0) => SmolStr::default(),
            version => smol_str::format_smolstr!("{version}"),
        };
        Self {
            kind: kind.into(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.to_smol_str(),
            api_version: api_version.into(),
            resource_version: version,
        }
    }

    /// For an object of which only name and uid are known.
    pub fn named<T: Resource>(namespace: &str, name: &str, uid: &Uid) -> Self {
        let kind = T::TYPE;
        Self {
            api_version: kind.api_version(),
            kind: kind.kind,
            namespace: namespace.into(),
            name: name.into(),
            uid: uid.to_smol_str(),
            resource_version: SmolStr::default(),
        }
    }
}

/// An event as a controller reported it, before it is merged with others.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    pub(crate) source: SmolStr,
    pub(crate) about: ObjectRef,
    pub(crate) kind: EventType,
    pub(crate) reason: SmolStr,
    pub(crate) message: String,
    pub(crate) annotations: Vec<(SmolStr, String)>,
    pub(crate) at: Timestamp,
}

/// The events of a [`Recorder`] that are not written yet. If it is dropped, so are they.
pub struct Unwritten {
    arrivals: mpsc::Receiver<Report>,
    dropped: Arc<AtomicU64>,
}

impl Unwritten {
    /// Writes events with `client` until all recorders are gone.
    pub fn write(self, client: Client) -> impl Future<Output = ()> + Send + 'static {
        sink::write_all(self.arrivals, client, self.dropped)
    }
}

/// Records events about objects. Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    source: SmolStr,
    clock: Clock,
    waiting: mpsc::Sender<Report>,
    dropped: Arc<AtomicU64>,
}

impl Recorder {
    /// A recorder whose events come from `source`, and the task that writes them with `client`. Events are
    /// written while that task runs; it ends when all recorders are gone.
    pub fn new(
        source: impl Into<SmolStr>,
        clock: Clock,
        client: Client,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (recorder, arrivals) = Self::unconnected(source, clock);
        (recorder, arrivals.write(client))
    }

    /// A recorder from before there is a client. Its first events wait for one, as far as there is room.
    pub fn unconnected(source: impl Into<SmolStr>, clock: Clock) -> (Self, Unwritten) {
        let (waiting, arrivals) = mpsc::channel(WAITING);
        let recorder = Self { source: source.into(), clock, waiting, dropped: Arc::default() };
        let dropped = recorder.dropped.clone();
        (recorder, Unwritten { arrivals, dropped })
    }

    /// The same recorder under another source name (several controllers report under a historical one).
    pub fn with_source(&self, source: impl Into<SmolStr>) -> Self {
        Self { source: source.into(), ..self.clone() }
    }

    pub fn normal(&self, about: &ObjectRef, reason: &'static str, message: impl Into<String>) {
        self.record(about, EventType::Normal, reason, message.into(), vec![]);
    }

    pub fn warning(&self, about: &ObjectRef, reason: &'static str, message: impl Into<String>) {
        self.record(about, EventType::Warning, reason, message.into(), vec![]);
    }

    /// The general form, with annotations on the event and a reason that need not be constant.
    pub fn record(
        &self,
        about: &ObjectRef,
        kind: EventType,
        reason: impl Into<SmolStr>,
        message: String,
        annotations: Vec<(SmolStr, String)>,
    ) {
        let reason = reason.into();
        tracing::debug!(kind = %about.kind, namespace = %about.namespace, name = %about.name, %reason, %message, "event");
        let report = Report {
            source: self.source.clone(),
            about: about.clone(),
            kind,
            reason,
            message,
            annotations,
            at: self.clock.now(),
        };
        if self.waiting.try_send(report).is_err() && self.dropped.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(source = %self.source, waiting = WAITING, "events are produced faster than the API server takes them; dropping some");
        }
    }

    /// How many events were dropped, because too many were waiting or because of a panic.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
