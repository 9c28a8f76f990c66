//! A model of how the API server lists and watches one resource, with switches for its failures.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, ResourceVersion};
use flyball_client::RawObject;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::source::{Class, Event, EventKind, Events, Failure, Page, Source, WatchFrom};

/// How the server answers a request for a streaming list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Streaming {
    Supported,
    /// As a server with the feature switched off.
    Refused,
    /// As a server that has never received of it: objects come, the end bookmark does not.
    NoEnd,
}

#[derive(Clone)]
pub(super) struct Server {
    state: Arc<Mutex<State>>,
}

struct State {
    version: u64,
    compacted: u64,
    objects: BTreeMap<Key, Value>,
    history: Vec<(u64, EventKind, Value)>,
    /// Open watches, and the versions that they began at.
    watchers: Vec<(u64, UnboundedSender<Result<Event, Failure>>)>,
    snapshots: BTreeMap<String, (u64, Vec<Value>)>,
    tokens: u64,
    uids: u64,
    streaming: Streaming,
    reachable: bool,
    muted: bool,
    fail_next: u32,
    refuses_watches: Option<Class>,
    ends_new_watches: bool,
    response_time: Duration,
    fail_after_pages: Option<u32>,
    retry_after: Option<Duration>,
    page_limit: Option<usize>,
    /// The continue token of every page; a request with it gets the first page.
    token_for_all: Option<&'static str>,
    requests: Vec<(Instant, String)>,
    watch_timeouts: Vec<Duration>,
}

impl Server {
    pub(super) fn new() -> Self {
        let state = State {
            version: 1,
            compacted: 0,
            objects: BTreeMap::new(),
            history: Vec::new(),
            watchers: Vec::new(),
            snapshots: BTreeMap::new(),
            tokens: 0,
            uids: 0,
            streaming: Streaming::Supported,
            reachable: true,
            muted: false,
            fail_next: 0,
            refuses_watches: None,
            ends_new_watches: false,
            response_time: Duration::ZERO,
            fail_after_pages: None,
            retry_after: None,
            page_limit: None,
            token_for_all: None,
            requests: Vec::new(),
            watch_timeouts: Vec::new(),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    pub(super) fn with(objects: &[&str]) -> Self {
        let server = Self::new();
        for name in objects {
            server.put(name, json!({}));
        }
        server
    }

    pub(super) fn streaming(self, streaming: Streaming) -> Self {
        self.state.lock().streaming = streaming;
        self
    }

    /// Lists in pages of at most this many, whatever the limit of the request is.
    pub(super) fn pages_of(self, limit: usize) -> Self {
        self.state.lock().page_limit = Some(limit);
        self
    }

    /// Gives this continue token with every page; `None` gives each page its own again.
    pub(super) fn repeat_token(&self, token: Option<&'static str>) {
        self.state.lock().token_for_all = token;
    }

    /// Creates or updates `ns/name` with the given fields; answers the version.
    pub(super) fn put(&self, name: &str, fields: Value) -> ResourceVersion {
        let mut state = self.state.lock();
        let key = Key::parse(name).unwrap();
        state.version += 1;
        let version = state.version;
        let held = state.objects.get(&key).map(|object| object["metadata"]["uid"].clone());
        let uid = held.unwrap_or_else(|| {
            state.uids += 1;
            json!(format!("uid-{}", state.uids))
        });
        let mut object = fields;
        let mut meta = object["metadata"].take();
        if meta.is_null() {
            meta = json!({});
        }
        meta["name"] = json!(key.name);
        meta["namespace"] = json!(key.namespace);
        meta["uid"] = uid;
        meta["resourceVersion"] = json!(version.to_string());
        object["metadata"] = meta;
        state.objects.insert(key, object.clone());
        state.deliver(version, EventKind::Applied, object);
        ResourceVersion(version)
    }

    pub(super) fn delete(&self, name: &str) -> ResourceVersion {
        let mut state = self.state.lock();
        if let Some(mut object) = state.objects.remove(&Key::parse(name).unwrap()) {
            state.version += 1;
            let version = state.version;
            object["metadata"]["resourceVersion"] = json!(version.to_string());
            state.deliver(version, EventKind::Deleted, object);
        }
        ResourceVersion(state.version)
    }

    /// Removes an object without anybody hearing of it, as far as watches go.
    pub(super) fn delete_unheard(&self, name: &str) {
        let mut state = self.state.lock();
        state.version += 1;
        state.objects.remove(&Key::parse(name).unwrap());
        state.compacted = state.version;
        state.history.clear();
    }

    /// Sends a bookmark of the current version to all watches.
    pub(super) fn bookmark(&self) -> ResourceVersion {
        let mut state = self.state.lock();
        state.version += 1;
        let version = state.version;
        state.send(&bookmark(version, false));
        ResourceVersion(version)
    }

    /// Forgets all history: watches can no longer be resumed, page tokens are void.
    pub(super) fn compact(&self) {
        let mut state = self.state.lock();
        state.version += 1;
        state.compacted = state.version;
        state.history.clear();
        state.snapshots.clear();
    }

    /// Becomes what `other` is, versions included, as after a restore from a backup.
    pub(super) fn restore(&self, other: &Server) {
        let mut state = self.state.lock();
        let other = other.state.lock();
        state.objects = other.objects.clone();
        state.version = other.version;
        state.compacted = other.version;
        state.history.clear();
        state.snapshots.clear();
        drop(state);
        drop(other);
    }

    /// Sends a bookmark of this version, whatever the server's is.
    pub(super) fn bookmark_of(&self, version: ResourceVersion) {
        self.state.lock().send(&bookmark(version.0, false));
    }

    /// Sends the bookmark that ends a streaming list.
    pub(super) fn end_list(&self) {
        let mut state = self.state.lock();
        let version = state.version;
        state.send(&bookmark(version, true));
    }

    /// Ends all watches, as a server does when their time is up.
    pub(super) fn close_watches(&self) {
        self.state.lock().watchers.clear();
    }

    pub(super) fn cut(&self) {
        self.end_watches(Class::Unreachable, "connection reset");
    }

    pub(super) fn end_watches(&self, class: Class, why: &str) {
        for (_, watcher) in self.state.lock().watchers.drain(..) {
            let _gone = watcher.unbounded_send(Err(failure(class, why)));
        }
    }

    /// Watches stay open and nothing comes through any more.
    pub(super) fn mute(&self) {
        self.state.lock().muted = true;
    }

    pub(super) fn unmute(&self) {
        self.state.lock().muted = false;
    }

    pub(super) fn is_muted(&self) -> bool {
        self.state.lock().muted
    }

    pub(super) fn set_reachable(&self, reachable: bool) {
        self.state.lock().reachable = reachable;
        if !reachable {
            self.cut();
        }
    }

    pub(super) fn fail_next(&self, requests: u32, retry_after: Option<Duration>) {
        let mut state = self.state.lock();
        state.fail_next = requests;
        state.retry_after = retry_after;
    }

    /// Lists succeed and watches are refused, as without the right to watch.
    pub(super) fn refuse_watches(&self, class: Class) {
        self.state.lock().refuses_watches = Some(class);
        self.close_watches();
    }

    /// Lists succeed and watches are refused for now, as by a server that has just started.
    pub(super) fn throttle_watches(&self) {
        self.state.lock().retry_after = Some(Duration::from_secs(1));
        self.refuse_watches(Class::Passing);
    }

    pub(super) fn allow_watches(&self) {
        self.state.lock().refuses_watches = None;
    }

    /// Accepts watches from a version, and ends them at once.
    pub(super) fn end_new_watches(&self) {
        self.state.lock().ends_new_watches = true;
        self.close_watches();
    }

    /// Responds only after this time. What the response shows is decided when the request arrives, as by the real server.
    pub(super) fn respond_after(&self, time: Duration) {
        self.state.lock().response_time = time;
    }

    /// Compacts once this many pages have been served.
    pub(super) fn compact_after_pages(&self, pages: u32) {
        self.state.lock().fail_after_pages = Some(pages);
    }

    /// Sends the newest `n` events of the history again.
    pub(super) fn replay(&self, n: usize) {
        let mut state = self.state.lock();
        let from = state.history.len().saturating_sub(n);
        let events: Vec<Event> =
            state.history[from..].iter().map(|(_, kind, object)| event(*kind, object)).collect();
        for event in events {
            state.send(&event);
        }
    }

    /// Sends one event of the history again.
    pub(super) fn echo(&self, which: usize) {
        let mut state = self.state.lock();
        let event = state.history.iter().cycle().nth(which).map(|(_, kind, object)| event(*kind, object));
        if let Some(event) = event {
            state.send(&event);
        }
    }

    /// Sends an event as it is.
    pub(super) fn send(&self, kind: EventKind, object: &Value) {
        self.state.lock().send(&event(kind, object));
    }

    pub(super) fn version(&self) -> ResourceVersion {
        ResourceVersion(self.state.lock().version)
    }

    /// The objects that can be decoded as a `Widget`.
    pub(super) fn shape(&self) -> super::Shape {
        let state = self.state.lock();
        let decodable = state.objects.iter().filter(|(_, object)| is_decodable(object));
        decodable.map(|(key, object)| (key.clone(), identity(object))).collect()
    }

    pub(super) fn undecodable(&self) -> Vec<Key> {
        let state = self.state.lock();
        state.objects.iter().filter(|(_, object)| !is_decodable(object)).map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn watches(&self) -> usize {
        let mut state = self.state.lock();
        state.watchers.retain(|(_, watcher)| !watcher.is_closed());
        state.watchers.len()
    }

    /// The requests since the last call: "stream", "watch 5", "page", "page 2".
    pub(super) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().requests).into_iter().map(|(_, request)| request).collect()
    }

    pub(super) fn request_times(&self) -> Vec<Instant> {
        self.state.lock().requests.iter().map(|(at, _)| *at).collect()
    }

    pub(super) fn watch_timeouts(&self) -> Vec<Duration> {
        self.state.lock().watch_timeouts.clone()
    }
}

fn is_decodable(object: &Value) -> bool {
    object.get("size").is_none_or(Value::is_i64)
}

fn identity(object: &Value) -> (String, u64) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
    (text("uid"), text("resourceVersion").parse().unwrap())
}

fn event(kind: EventKind, object: &Value) -> Event {
    Event { kind, object: RawObject::json(object.to_string()) }
}

fn event_version(event: &Event) -> u64 {
    let object: Value = event.object.decode_as().unwrap();
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn bookmark(version: u64, ends_list: bool) -> Event {
    let annotations = if ends_list { json!({"k8s.io/initial-events-end": "true"}) } else { json!({}) };
    let meta = json!({"resourceVersion": version.to_string(), "annotations": annotations});
    event(EventKind::Bookmark, &json!({"kind": "Widget", "metadata": meta}))
}

pub(super) fn failure(class: Class, why: &str) -> Failure {
    Failure { class, doing: "asking the model", retry_after: None, cause: why.into() }
}

impl State {
    fn deliver(&mut self, version: u64, kind: EventKind, object: Value) {
        self.send(&event(kind, &object));
        self.history.push((version, kind, object));
    }

    fn send(&mut self, event: &Event) {
        if !self.muted {
            let version = event_version(event);
            self.watchers.retain(|(from, watcher)| {
                let silent = version > 0 && version <= *from && *from > self.version;
                silent && !watcher.is_closed() || !silent && watcher.unbounded_send(Ok(event.clone())).is_ok()
            });
        }
    }

    fn admit(&mut self, request: String) -> Result<(), Failure> {
        self.requests.push((Instant::now(), request));
        if !self.reachable {
            return Err(failure(Class::Unreachable, "connection refused"));
        }
        if self.fail_next > 0 {
            self.fail_next -= 1;
            return Err(Failure { retry_after: self.retry_after, ..failure(Class::Passing, "try again") });
        }
        Ok(())
    }

    fn page(&mut self, limit: u32, after: Option<String>) -> Result<Page, Failure> {
        self.admit(after.as_ref().map_or("page".to_owned(), |token| format!("page {token}")))?;
        if let Some(pages) = &mut self.fail_after_pages {
            if *pages == 0 {
                self.fail_after_pages = None;
                self.snapshots.clear();
            } else {
                *pages -= 1;
            }
        }
        let after = after.filter(|token| self.token_for_all != Some(token));
        let (version, mut rest) = match after {
            None => (self.version, self.objects.values().cloned().collect()),
            Some(token) => self
                .snapshots
                .remove(&token)
                .ok_or_else(|| failure(Class::VersionUnusable, "token expired"))?,
        };
        let limit = self.page_limit.unwrap_or(limit as usize).min(limit as usize);
        let later = rest.split_off(rest.len().min(limit));
        let next = (!later.is_empty()).then(|| {
            self.tokens += 1;
            let token = self.token_for_all.map_or_else(|| self.tokens.to_string(), str::to_owned);
            self.snapshots.insert(token.clone(), (version, later));
            token
        });
        let items = rest.iter().map(|object| RawObject::json(object.to_string())).collect();
        Ok(Page { items, version: ResourceVersion(version), next })
    }

    fn present(&mut self, name: Option<Key>) -> Result<Page, Failure> {
        self.admit("present".to_owned())?;
        let found = name.and_then(|name| self.objects.get(&name));
        let items = found.map(|object| RawObject::json(object.to_string())).into_iter().collect();
        Ok(Page { items, version: ResourceVersion(self.version), next: None })
    }

    fn watch(&mut self, from: WatchFrom, timeout: Duration) -> Result<Events, Failure> {
        self.admit(match from {
            WatchFrom::Scratch => "stream".to_owned(),
            WatchFrom::Version(version) => format!("watch {version}"),
        })?;
        if let Some(class) = self.refuses_watches {
            return Err(Failure { retry_after: self.retry_after, ..failure(class, "forbidden") });
        }
        self.watch_timeouts.push(timeout);
        let (sender, receiver) = unbounded();
        let send = |event: Event| drop(sender.unbounded_send(Ok(event)));
        match from {
            WatchFrom::Scratch => {
                if self.streaming == Streaming::Refused {
                    return Err(failure(Class::Refused, "sendInitialEvents is forbidden"));
                }
                self.objects.values().for_each(|object| send(event(EventKind::Applied, object)));
                if self.streaming == Streaming::Supported {
                    send(bookmark(self.version, true));
                }
            }
            // "Any version": begins with what is there, as a watch without one does.
            WatchFrom::Version(ResourceVersion(0)) => {
                self.objects.values().for_each(|object| send(event(EventKind::Applied, object)));
            }
            WatchFrom::Version(ResourceVersion(version)) => {
                if version < self.compacted {
                    return Err(failure(Class::VersionUnusable, "too old resource version"));
                }
                // As the real watch cache: a version that is still to come is accepted, and until then all is silent.
                let missed = self.history.iter().filter(|(at, ..)| *at > version);
                missed.for_each(|(_, kind, object)| send(event(*kind, object)));
            }
        }
        let start = match from {
            WatchFrom::Version(ResourceVersion(version)) => version,
            WatchFrom::Scratch => 0,
        };
        if !self.ends_new_watches {
            self.watchers.push((start, sender));
        }
        Ok(receiver.boxed())
    }
}

impl Server {
    /// Decides about a request when it arrives, and responds when its time has come.
    fn respond<T: Send + 'static>(
        &self,
        decide: impl FnOnce(&mut State) -> Result<T, Failure> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Failure>> {
        let state = self.state.clone();
        async move {
            let (response, time) = {
                let mut state = state.lock();
                (decide(&mut state), state.response_time)
            };
            if !time.is_zero() {
                tokio::time::sleep(time).await;
            }
            response
        }
        .boxed()
    }
}

impl Source for Server {
    fn page(&self, limit: u32, after: Option<String>) -> BoxFuture<'static, Result<Page, Failure>> {
        self.respond(move |state| state.page(limit, after))
    }

    fn present(&self, name: Option<&Key>) -> BoxFuture<'static, Result<Page, Failure>> {
        let name = name.cloned();
        self.respond(move |state| state.present(name))
    }

    fn watch(&self, from: WatchFrom, timeout: Duration) -> BoxFuture<'static, Result<Events, Failure>> {
        self.respond(move |state| state.watch(from, timeout))
    }

    fn fall_back_to_json(&self) -> bool {
        false
    }
}

/// The same server as an aggregated API that has neither versions nor streaming lists.
pub(super) struct Unversioned(pub(super) Server);

fn stripped(object: &RawObject) -> RawObject {
    let mut object: Value = object.decode_as().unwrap();
    object["metadata"]["resourceVersion"] = json!("");
    RawObject::json(object.to_string())
}

impl Source for Unversioned {
    fn page(&self, limit: u32, after: Option<String>) -> BoxFuture<'static, Result<Page, Failure>> {
        let page = self.0.page(limit, after);
        async move {
            let Page { items, next, .. } = page.await?;
            Ok(Page { items: items.iter().map(stripped).collect(), version: ResourceVersion(0), next })
        }
        .boxed()
    }

    fn present(&self, _: Option<&Key>) -> BoxFuture<'static, Result<Page, Failure>> {
        async { Err(failure(Class::Refused, "there are no versions")) }.boxed()
    }

    fn watch(&self, from: WatchFrom, timeout: Duration) -> BoxFuture<'static, Result<Events, Failure>> {
        if from == WatchFrom::Scratch {
            return async { Err(failure(Class::Refused, "never received of it")) }.boxed();
        }
        let events = self.0.watch(from, timeout);
        async move {
            let strip = |event: Event| Event { object: stripped(&event.object), ..event };
            Ok(events.await?.map(move |event| event.map(strip)).boxed())
        }
        .boxed()
    }

    fn fall_back_to_json(&self) -> bool {
        false
    }
}
