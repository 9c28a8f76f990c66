//! watch: the history of a resource as a stream of lines, filtered, with bookmarks, until its timeout.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use rand::Rng as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Answer, Call, list, render};
use crate::crd::conversion;
use crate::error::{ApiError, Named};
use crate::http::message;
use crate::http::negotiate::{Accept, Format, View};
use crate::http::path::RequestInfo;
use crate::http::query::Query;
use crate::http::respond::{self, BoxError};
use crate::invalid::Cause;
use crate::registry::User;
use crate::resource::Resource;
use crate::selector::{FieldSelector, LabelSelector};
use crate::server::Inner;
use crate::store::{Entry, Event, Follower, Happened, Range, frame};

/// The limit on events that are read from the history at once, which bounds the memory of a watch.
const BATCH: usize = 256;
/// The initial state is sent in chunks of about this size.
const CHUNK: usize = 64 * 1024;
/// Watches without a timeout end after 30 to 60 minutes, as in upstream.
const MIN_TIMEOUT: u64 = 1800;
/// How long before its end a watch gets its last bookmark, as in upstream.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// A year. There are times that are too late for a clock.
const LONGEST: u64 = 366 * 24 * 60 * 60;

pub(super) async fn watch(call: &Call<'_>) -> Result<Answer, ApiError> {
    let query = call.query;
    let initial = query.flag("sendInitialEvents");
    check_options(query, initial)?;
    let (labels, fields) = call.selectors()?;
    let version = version(query)?;
    if initial == Some(true)
        && let Some(version) = version
    {
        list::reach(call, version).await?;
    }
    let lasts = duration(call)?;
    let scope = Scope {
        server: Arc::clone(call.server),
        resource: Arc::clone(&call.resource),
        info: call.info.clone(),
        query: call.query.clone(),
        user: call.user.clone(),
        accept: Accept { gzip: false, ..call.accept },
        labels,
        fields,
    };
    let store = &call.server.store;
    let shelf = &call.resource.shelf;
    // Without a version, or with `sendInitialEvents`, the current state is sent first.
    let from_state = initial == Some(true) || (version.is_none() && initial != Some(false));
    let mut state = State::default();
    let start = if from_state {
        let namespace = scope.namespace();
        let page = store.list(shelf, &Range { namespace, ..Range::default() });
        let page = page.map_err(|_| ApiError::expired("the history has just been compacted"))?;
        state.entries = call.shown(page.entries).await?.into_iter();
        state.end = (initial == Some(true)).then(|| scope.bookmark(page.version, true));
        page.version
    } else {
        version.unwrap_or_else(|| store.version())
    };
    let timeout = Instant::now() + lasts;
    let bookmarks = query.flag("allowWatchBookmarks") == Some(true);
    let every = call.server.options.bookmark_every;
    let (follower, state, lines) = match store.follow(shelf, start) {
        Ok(follower) => (Some(follower), state, VecDeque::new()),
        Err(gone) => (
            None,
            State::default(),
            VecDeque::from([render::error_line(call.accept, &too_old(start, gone.oldest))]),
        ),
    };
    let next_bookmark = if bookmarks && follower.is_some() { bookmark_time(timeout, every) } else { None };
    let watch = Stream { scope, state, follower, lines, timeout, every, next_bookmark, began: start };
    let frames = stream::unfold(watch, |mut watch| async move {
        let bytes = watch.next().await?;
        Some((Ok::<_, BoxError>(Frame::data(bytes)), watch))
    });
    let media = if call.accept.format == Format::Protobuf { message::STREAM } else { "application/json" };
    let mut response = respond::with_type(200, Bytes::new(), media);
    *response.body_mut() = StreamBody::new(frames).boxed_unsync();
    Ok(response.into())
}

/// The version to watch from; `None` for the current state.
fn version(query: &Query) -> Result<Option<u64>, ApiError> {
    let text = match query.get("resourceVersion") {
        None | Some("0") => return Ok(None),
        Some(text) => text,
    };
    text.parse().map(Some).map_err(|_| {
        let detail = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
        let cause = Cause::invalid("resourceVersion", text, &detail);
        ApiError::unexplained(format!("{}: {}", cause.field, cause.message))
    })
}

/// How long the watch lasts: as long as the client asks for, or a random time.
fn duration(call: &Call<'_>) -> Result<Duration, ApiError> {
    Ok(Duration::from_secs(match call.query.number("timeoutSeconds")? {
        Some(seconds) if seconds > 0 => seconds.unsigned_abs().min(LONGEST),
        _ => MIN_TIMEOUT + call.server.rng.lock().random_range(0..MIN_TIMEOUT),
    }))
}

fn check_options(query: &Query, initial: Option<bool>) -> Result<(), ApiError> {
    let refuse = |field: &str, detail: &str| {
        let named = Named { group: "meta.k8s.io", what: "ListOptions", name: "" };
        Err(ApiError::invalid(named, &[Cause::forbidden(field, detail)]))
    };
    match (initial, query.get("resourceVersionMatch")) {
        (Some(_), Some("NotOlderThan")) => Ok(()),
        (Some(_), _) => refuse(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (None, Some(_)) => refuse(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
        (None, None) => Ok(()),
    }
}

/// When the next bookmark is due: regularly, and shortly before the watch ends, so that it can be resumed where it
/// ended.
fn bookmark_time(timeout: Instant, every: Duration) -> Option<Instant> {
    let now = Instant::now();
    let last = timeout.checked_sub(LAST_BOOKMARK).unwrap_or(timeout);
    (last > now).then(|| last.min(now + every))
}

fn too_old(version: u64, oldest: u64) -> ApiError {
    ApiError::expired(format!("too old resource version: {version} ({oldest})"))
}

/// The parts of the request that the watch needs.
struct Scope {
    server: Arc<Inner>,
    resource: Arc<Resource>,
    info: RequestInfo,
    query: Query,
    user: User,
    accept: Accept,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Scope {
    fn namespace(&self) -> Option<&str> {
        self.resource.namespaced.then_some(self.info.namespace.as_deref()).flatten()
    }

    fn call(&self) -> Call<'_> {
        Call {
            server: &self.server,
            resource: Arc::clone(&self.resource),
            parts: None,
            info: &self.info,
            query: &self.query,
            user: &self.user,
            now: self.server.now(),
            accept: self.accept,
            media: "",
            user_agent: "",
            notes: Arc::default(),
            websocket: None,
            spdy: None,
            body: Bytes::new(),
        }
    }

    /// Events with their objects in the version of the watch.
    async fn shown(&self, mut events: Vec<Event>) -> Result<Vec<Event>, ApiError> {
        let is_stored = self.resource.custom.as_ref().is_none_or(|custom| custom.conversion.is_none());
        if is_stored {
            return Ok(events);
        }
        let entries = events.iter().flat_map(|event| [Some(&event.entry), event.previous.as_ref()]);
        let entries = entries.flatten().cloned().collect();
        let mut shown = conversion::shown(&self.server, &self.resource, entries).await?.into_iter();
        for event in &mut events {
            if let Some(entry) = shown.next() {
                event.entry = entry;
            }
            if event.previous.is_some() {
                event.previous = shown.next();
            }
        }
        Ok(events)
    }

    fn selects(&self, entry: &Entry) -> bool {
        self.labels.matches(&entry.facets.labels) && self.fields.matches(entry)
    }

    /// The next part of the initial state, as `ADDED` events.
    fn state(&self, state: &mut State) -> Option<Bytes> {
        let call = self.call();
        let mut chunk = BytesMut::new();
        for entry in state.entries.by_ref().filter(|entry| self.selects(entry)) {
            chunk.extend_from_slice(&render::line(&call, Happened::Added, &entry));
            if chunk.len() >= CHUNK {
                return Some(chunk.freeze());
            }
        }
        if !chunk.is_empty() {
            return Some(chunk.freeze());
        }
        state.end.take()
    }

    /// The event for this watcher: an object that begins or ceases to match is added or deleted.
    fn line(&self, call: &Call<'_>, event: &Event) -> Option<Bytes> {
        if self.namespace().is_some_and(|ns| event.entry.key.namespace != ns) {
            return None;
        }
        let before = event.previous.as_ref().filter(|previous| self.selects(previous));
        let after = event.happened != Happened::Deleted && self.selects(&event.entry);
        match (before, after) {
            (None, true) => Some(render::line(call, Happened::Added, &event.entry)),
            (Some(_), true) => Some(render::line(call, Happened::Modified, &event.entry)),
            (Some(_), false) if event.happened == Happened::Deleted => {
                Some(render::line(call, Happened::Deleted, &event.entry))
            }
            (Some(previous), false) => {
                // The object still exists, but no longer matches; the watcher gets its last matching state with the new version.
                let mut object = previous.value();
                object["metadata"]["resourceVersion"] = json!(event.version.to_string());
                let key = previous.key.clone();
                let facets = previous.facets.clone();
                let last = Entry::new(event.version, key, facets, Happened::Deleted, &object);
                Some(render::line(call, Happened::Deleted, &last))
            }
            (None, false) => None,
        }
    }

    fn bookmark(&self, version: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": version.to_string(), "creationTimestamp": null});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object: Value = match self.accept.view {
            View::Whole => {
                json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata})
            }
            View::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            View::Table => {
                json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
                       "columnDefinitions": null, "rows": null})
            }
        };
        if self.accept.format == Format::Protobuf {
            return match message::object(&object) {
                Some(Ok(object)) => message::frame("BOOKMARK", &object),
                // Only kinds with messages are watched so.
                Some(Err(_)) | None => Bytes::new(),
            };
        }
        let line = frame(Happened::Added, object.to_string().as_bytes());
        // The only event type that `Happened` does not have.
        let text = String::from_utf8_lossy(&line).replacen("\"ADDED\"", "\"BOOKMARK\"", 1);
        Bytes::from(text)
    }
}

/// The rest of the initial state of a watch. Serialized while it is read, since many watchers of many objects would otherwise
/// hold many copies.
#[derive(Default)]
struct State {
    entries: std::vec::IntoIter<Arc<Entry>>,
    end: Option<Bytes>,
}

impl State {
    fn is_told(&self) -> bool {
        self.entries.len() == 0 && self.end.is_none()
    }
}

struct Stream {
    scope: Scope,
    state: State,
    follower: Option<Follower>,
    lines: VecDeque<Bytes>,
    timeout: Instant,
    every: Duration,
    next_bookmark: Option<Instant>,
    /// The version that the watch began at.
    began: u64,
}

impl Stream {
    /// The next bytes; `None` ends the watch.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            if !self.state.is_told() {
                match self.scope.state(&mut self.state) {
                    Some(bytes) => return Some(bytes),
                    None => continue,
                }
            }
            let follower = self.follower.as_mut()?;
            match self.scope.server.store.next(follower, BATCH) {
                Ok(events) => {
                    let events = match self.scope.shown(events).await {
                        Ok(events) => events,
                        Err(error) => {
                            self.lines.push_back(render::error_line(self.scope.accept, &error));
                            self.follower = None;
                            continue;
                        }
                    };
                    let call = self.scope.call();
                    self.lines.extend(events.iter().filter_map(|event| self.scope.line(&call, event)));
                    if !events.is_empty() {
                        continue;
                    }
                }
                Err(gone) => {
                    // Too slow: the client has to list again.
                    let error = too_old(follower.cursor(), gone.oldest);
                    self.lines.push_back(render::error_line(self.scope.accept, &error));
                    self.follower = None;
                    continue;
                }
            }
            let wake = self.next_bookmark.map_or(self.timeout, |at| at.min(self.timeout));
            tokio::select! {
                biased;
                alive = follower.changed() => if !alive { return None },
                () = tokio::time::sleep_until(wake) => {
                    if Instant::now() >= self.timeout {
                        return None;
                    }
                    let reached = follower.cursor();
                    self.next_bookmark = bookmark_time(self.timeout, self.every);
                    // As the real watch cache: a watch from a future version gets nothing.
                    if reached > self.began {
                        return Some(self.scope.bookmark(reached, false));
                    }
                }
            }
        }
    }
}
