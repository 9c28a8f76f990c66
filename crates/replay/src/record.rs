//! Follows all objects of a cluster and writes their changes. Only reads, and never Secrets.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::LazyLock;
use std::time::Duration;

use flyball_api::{ResourceType, Timestamp};
use flyball_apiserver::kinds;
use flyball_client::{Client, Discovery, Error, EventKind, ListParams, WatchParams};
use flyball_runtime::{Chain, Clock};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use smol_str::{SmolStr, ToSmolStr as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::attribute::authors;
use crate::file::{Change, Head, What, Writer};
use crate::merge;
use crate::redact::Redactor;

/// Objects in one response, and lists that are read at once.
const PAGE: u32 = 500;
const AT_ONCE: usize = 8;
/// Changes that wait to be written; then the watches wait.
const WAITING: usize = 1024;
/// What was collected is written after this time at the latest.
const GATHER: Duration = Duration::from_secs(5);
/// Pauses before a watch that failed is opened again.
const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(30);
/// Times of objects have seconds only.
const SECOND: Duration = Duration::from_secs(1);

/// What was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub objects: usize,
    pub changes: usize,
    /// The resources that could not be read, and why.
    pub missing: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("the kinds of the cluster cannot be discovered")]
    Discovery(#[source] Error),
    #[error("nothing can be read: {0}")]
    Nothing(String),
    #[error("the recording cannot be written")]
    Write(#[from] io::Error),
}

/// Records until `until` resolves, or writing fails.
pub async fn record(
    client: &Client,
    out: impl Write,
    redactor: &Redactor,
    clock: Clock,
    until: impl Future<Output = ()>,
) -> Result<Summary, RecordError> {
    let discovery = client.discover().await.map_err(RecordError::Discovery)?;
    let begun = clock.now();
    let (listed, missing) = list_all(client, &discovery).await;
    if listed.is_empty() {
        return Err(RecordError::Nothing(missing.first().cloned().unwrap_or_default()));
    }
    let newest = listed.iter().flat_map(|listed| &listed.objects).filter_map(newest_time).max();
    let mut pace = Pace { clock, ahead: Duration::ZERO, last: begun };
    pace.has_seen(newest);
    let head = Head::new(pace.now(), version(client).await, missing.clone());
    let writer = Writer::begin(out, &head)?;
    let mut recorder = Recorder { writer, redactor, pace, known: BTreeMap::new(), changes: 0 };
    let (send, mut events) = mpsc::channel(WAITING);
    let mut watches = JoinSet::new();
    for Listed { resource, version, objects } in listed {
        for object in objects {
            recorder.begin(&resource, object)?;
        }
        watches.spawn(follow(client.clone(), resource, version, send.clone()));
    }
    drop(send);
    recorder.writer.flush()?;
    let objects = recorder.known.len();
    let mut until = std::pin::pin!(until);
    let mut due = Instant::now() + GATHER;
    loop {
        tokio::select! {
            biased;
            () = &mut until => break,
            () = sleep_until(due) => {
                recorder.writer.flush()?;
                due = Instant::now() + GATHER;
            }
            event = events.recv() => match event {
                Some(event) => recorder.take(event)?,
                None => break,
            },
        }
    }
    while let Ok(event) = events.try_recv() {
        recorder.take(event)?;
    }
    let Recorder { writer, mut pace, changes, .. } = recorder;
    writer.end(pace.now())?;
    Ok(Summary { objects, changes, missing })
}

async fn version(client: &Client) -> String {
    let read = client.get_raw("/version").await;
    let version = read.ok().and_then(|reply| serde_json::from_slice::<Value>(&reply.body).ok());
    version.and_then(|version| Some(version["gitVersion"].as_str()?.to_owned())).unwrap_or_default()
}

/// Secrets are not even asked for. Events and Leases say nothing that a replay needs, and are most of the writes.
fn is_recorded(resource: &ResourceType) -> bool {
    !matches!(resource.plural.as_str(), "secrets" | "events" | "leases" | "leasecandidates")
}

struct Listed {
    resource: ResourceType,
    version: SmolStr,
    objects: Vec<Value>,
}

/// All objects, and what could not be read.
async fn list_all(client: &Client, discovery: &Discovery) -> (Vec<Listed>, Vec<String>) {
    let resources: Vec<ResourceType> =
        discovery.followable(&["list", "watch"], std::iter::empty()).filter(is_recorded).collect();
    let mut lists = stream::iter(resources)
        .map(|resource| async move {
            let read = list(client, &resource).await;
            (resource, read)
        })
        .buffered(AT_ONCE);
    let mut missing: Vec<String> = discovery
        .failures
        .iter()
        .map(|failure| format!("{}: {}", failure.group_version, failure.problem))
        .collect();
    let mut listed = Vec::new();
    while let Some((resource, read)) = lists.next().await {
        match read {
            Ok((version, objects)) => listed.push(Listed { resource, version, objects }),
            Err(error) => missing.push(format!("{resource}: {}", said(&error))),
        }
    }
    (listed, missing)
}

fn said(error: &Error) -> String {
    error.status().map_or_else(|| Chain(error).to_string(), |status| status.message.clone())
}

async fn list(client: &Client, resource: &ResourceType) -> Result<(SmolStr, Vec<Value>), Error> {
    let mut params = ListParams { limit: Some(PAGE), ..ListParams::default() };
    let mut objects = Vec::new();
    loop {
        let page = client.list_dynamic(resource, None, &params).await?;
        objects.extend(page.items.into_iter().map(|object| typed(object, resource)));
        match page.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_ = Some(token),
            None => return Ok((page.resource_version.to_smolstr(), objects)),
        }
    }
}

/// Items of lists have no kind of their own.
fn typed(mut object: Value, resource: &ResourceType) -> Value {
    object["apiVersion"] = json!(resource.api_version());
    object["kind"] = json!(resource.kind);
    object
}

/// What a watch has seen.
enum Event {
    Seen(ResourceType, What, Value),
    /// All objects of a resource, after events were missed.
    Listed(ResourceType, SmolStr, Vec<Value>),
}

/// Follows a resource until nobody listens.
async fn follow(client: Client, resource: ResourceType, mut version: SmolStr, events: mpsc::Sender<Event>) {
    let mut pause = SOONEST;
    loop {
        let failed = match watch(&client, &resource, &mut version, &events).await {
            Ok(false) => return,
            Ok(true) => {
                pause = SOONEST;
                continue;
            }
            Err(error) if error.is_expired() => match list(&client, &resource).await {
                Ok((now, objects)) => {
                    version = now.clone();
                    if events.send(Event::Listed(resource.clone(), now, objects)).await.is_err() {
                        return;
                    }
                    continue;
                }
                Err(error) => error,
            },
            Err(error) => error,
        };
        tracing::warn!(%resource, error = %Chain(&failed), "a watch has failed; it is opened again");
        sleep(pause).await;
        pause = (pause * 2).min(LATEST);
    }
}

/// One watch to its end. Returns whether anybody listens.
async fn watch(
    client: &Client,
    resource: &ResourceType,
    version: &mut SmolStr,
    events: &mpsc::Sender<Event>,
) -> Result<bool, Error> {
    let params =
        WatchParams { resource_version: Some(version.clone()), bookmarks: true, ..WatchParams::default() };
    let mut stream = client.watch(resource, &params).await?;
    while let Some(event) = stream.next().await {
        let event = event?;
        let object: Value = event.object.decode_as().map_err(|source| Error::Decode {
            what: format!("watch {resource}").into(),
            encoding: flyball_client::Encoding::Json,
            source,
        })?;
        if let Some(now) = object["metadata"]["resourceVersion"].as_str() {
            *version = now.into();
        }
        let what = match event.kind {
            EventKind::Added => What::Added,
            EventKind::Modified => What::Modified,
            EventKind::Deleted => What::Deleted,
            EventKind::Bookmark => continue,
        };
        if events.send(Event::Seen(resource.clone(), what, typed(object, resource))).await.is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The clock of the cluster, as far as one outside can know it: a playground's may be ahead, and may be moved.
struct Pace {
    clock: Clock,
    ahead: Duration,
    last: Timestamp,
}

impl Pace {
    /// A time that the cluster's clock has shown.
    fn has_seen(&mut self, time: Option<Timestamp>) {
        let now = self.clock.now().checked_add(self.ahead).unwrap_or(Timestamp::MAX);
        let missing = time.and_then(|time| Duration::try_from(time.duration_since(now)).ok());
        self.ahead += missing.filter(|missing| *missing > SECOND).unwrap_or_default();
    }

    fn now(&mut self) -> Timestamp {
        let now = self.clock.now().checked_add(self.ahead).unwrap_or(Timestamp::MAX);
        self.last = self.last.max(now);
        self.last
    }
}

/// The newest time in the metadata of an object.
fn newest_time(object: &Value) -> Option<Timestamp> {
    let metadata = &object["metadata"];
    let entries = metadata["managedFields"].as_array();
    let times = entries.into_iter().flatten().map(|entry| &entry["time"]);
    let times = times.chain([&metadata["creationTimestamp"]]);
    times.filter_map(|time| time.as_str()?.parse().ok()).max()
}

/// The last state of an object: what is recorded of it, and who has written which field.
struct Known {
    object: Value,
    managers: Value,
    version: u64,
}

struct Recorder<'a, W> {
    writer: Writer<W>,
    redactor: &'a Redactor,
    pace: Pace,
    known: BTreeMap<String, Known>,
    changes: usize,
}

impl<W: Write> Recorder<'_, W> {
    /// An object that was there at the start.
    fn begin(&mut self, resource: &ResourceType, object: Value) -> io::Result<()> {
        let key = key_of(resource, &object);
        let known = self.known_of(resource, object);
        self.writer.object(&key, &known.object)?;
        self.known.insert(key, known);
        Ok(())
    }

    fn take(&mut self, event: Event) -> io::Result<()> {
        match event {
            Event::Seen(resource, What::Deleted, object) => {
                self.pace.has_seen(newest_time(&object));
                let version = version_of(&object);
                self.gone(key_of(&resource, &object), version)
            }
            Event::Seen(resource, _, object) => self.seen(&resource, object),
            Event::Listed(resource, version, objects) => self.relisted(&resource, &version, objects),
        }
    }

    fn relisted(&mut self, resource: &ResourceType, version: &str, objects: Vec<Value>) -> io::Result<()> {
        let prefix = format!("{}/{}/", resource.group, resource.plural);
        let there: BTreeSet<String> = objects.iter().map(|object| key_of(resource, object)).collect();
        let known = self.known.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
        let gone: Vec<String> =
            known.map(|(key, _)| key).filter(|key| !there.contains(*key)).cloned().collect();
        for key in gone {
            self.gone(key, version.parse().unwrap_or_default())?;
        }
        objects.into_iter().try_for_each(|object| self.seen(resource, object))
    }

    fn seen(&mut self, resource: &ResourceType, object: Value) -> io::Result<()> {
        self.pace.has_seen(newest_time(&object));
        let (key, new) = (key_of(resource, &object), self.known_of(resource, object));
        let (at, version) = (self.pace.now(), new.version);
        let change = match self.known.entry(key.clone()) {
            Entry::Vacant(place) => {
                let by = authors(&Value::Null, &new.managers, &new.object);
                let body = place.insert(new).object.clone();
                Change { at, key, what: What::Added, version, by, body }
            }
            // A relist shows it again.
            Entry::Occupied(known) if known.get().version == version => return Ok(()),
            Entry::Occupied(mut known) => {
                let old = known.insert(new);
                let new = known.get();
                let Some(patch) = merge::diff(&old.object, &new.object) else { return Ok(()) };
                let by = authors(&old.managers, &new.managers, &patch);
                Change { at, key, what: What::Modified, version, by, body: patch }
            }
        };
        self.changes += 1;
        self.writer.change(change)
    }

    fn gone(&mut self, key: String, version: u64) -> io::Result<()> {
        if self.known.remove(&key).is_none() {
            return Ok(());
        }
        self.changes += 1;
        let at = self.pace.now();
        self.writer.change(Change { at, key, what: What::Deleted, version, by: vec![], body: Value::Null })
    }

    fn known_of(&self, resource: &ResourceType, mut object: Value) -> Known {
        let version = version_of(&object);
        let managers = object["metadata"]["managedFields"].take();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        self.redactor.redact(&mut object, is_known(resource));
        Known { object, managers, version }
    }
}

/// Whether we know what the fields of a kind are for.
fn is_known(resource: &ResourceType) -> bool {
    static KNOWN: LazyLock<BTreeSet<(&str, &str)>> = LazyLock::new(|| {
        kinds::catalog().iter().map(|builtin| (builtin.info.group, builtin.info.plural)).collect()
    });
    KNOWN.contains(&(resource.group.as_str(), resource.plural.as_str()))
}

fn version_of(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn key_of(resource: &ResourceType, object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}/{}/{}", resource.group, resource.plural, text("namespace"), text("name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_ahead_is_followed_and_time_never_goes_back() {
        let start: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let mut pace = Pace { clock: Clock::stopped_at(start), ahead: Duration::ZERO, last: start };
        #[rustfmt::skip]
        let table = [
            // seen                        now
            (None,                         "2026-03-01T12:00:00Z"),
            (Some("2026-03-01T11:00:00Z"), "2026-03-01T12:00:00Z"),
            (Some("2026-03-01T12:00:01Z"), "2026-03-01T12:00:00Z"),
            (Some("2026-03-01T13:00:00Z"), "2026-03-01T13:00:00Z"),
            (Some("2026-03-01T12:30:00Z"), "2026-03-01T13:00:00Z"),
        ];
        for (seen, now) in table {
            pace.has_seen(seen.map(|text| text.parse().unwrap()));
            assert_eq!(pace.now().to_string(), now, "{seen:?}");
        }
    }

    #[test]
    fn secrets_are_not_asked_for() {
        let resource =
            |group: &'static str, plural: &'static str| ResourceType::new(group, "v1", plural, "K", true);
        assert!(!is_recorded(&resource("", "secrets")));
        assert!(!is_recorded(&resource("events.k8s.io", "events")));
        assert!(!is_recorded(&resource("coordination.k8s.io", "leases")));
        assert!(is_recorded(&resource("", "pods")));
        assert!(is_known(&resource("apps", "deployments")) && !is_known(&resource("example.com", "widgets")));
    }
}
