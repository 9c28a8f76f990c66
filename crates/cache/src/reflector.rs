//! The task behind an informer: lists, watches, and recovers from failures.

use std::collections::HashSet;
use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, ResourceVersion, Uid};
use futures::{FutureExt, StreamExt};
use rand::Rng;
use rand::rngs::StdRng;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tracing::{debug, info, warn};

use crate::backoff::Backoff;
use crate::decode::{bookmark, header};
use crate::era::{Evidence, Newest, Present, evidence};
use crate::health::Record;
use crate::informers::InformerOptions;
use crate::metrics::Counters;
use crate::source::{Class, Event, EventKind, Events, Failure, Source, WatchFrom};
use crate::state::InformerState;
use crate::store_writer::AnyStoreWriter;

/// Objects on one page of a list, as in client-go's pager.
const PAGE: u32 = 500;
/// Watches have a random timeout in this range, as in client-go.
const WATCH_SECONDS: std::ops::Range<u64> = 300..600;
/// The timeout of a watch that is opened to get a bookmark: the server sends one two seconds before the end of a watch, and
/// otherwise once a minute.
const BOOKMARK_WATCH: Duration = Duration::from_secs(3);
/// Up to this many objects, a list is faster than waiting for a bookmark.
const LIST_FOR_VERSION_UP_TO: usize = 1000;
/// How long after its timeout a watch that has not ended is considered dead.
const SLACK: Duration = Duration::from_secs(30);
/// A server that sends nothing for this long during a streaming list does not support the bookmark that ends the list.
const LIST_SILENCE: Duration = Duration::from_secs(30);
/// After this many incomplete streaming lists in a row, the next list is paged: over a bad connection a long stream
/// might never complete.
const BROKEN_STREAMS: u32 = 3;
/// A watch that ends sooner without an event is a failure: opening the next one at once would be a hot loop.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);
/// The longest Retry-After that is respected.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);
/// How long lists are paged after a streaming list was refused, before streaming is tried again.
const PAGES_FOR: Duration = Duration::from_secs(600);
/// A watch that ends earlier than its timeout by more than this did not end because of the timeout.
const EARLY_END_TOLERANCE: Duration = Duration::from_secs(2);
/// The least time between a list and a relist that is requested, or that follows a lost version without a delay.
const BETWEEN_RELISTS: Duration = Duration::from_secs(10);

/// Keeps a store up to date with its [`Source`].
pub(crate) struct Reflector {
    source: Arc<dyn Source>,
    writer: Arc<dyn AnyStoreWriter>,
    state: Arc<InformerState>,
    record: Arc<Record>,
    rng: StdRng,
    backoff: Backoff,
    resync: Option<Resync>,
    /// Lists are paged until this time.
    pages_until: Option<Instant>,
    /// Whether lists are streamed where the server can do so.
    streams: bool,
    /// Whether etcd may have been restored since the last watch ended.
    may_be_restored: bool,
    /// The newest object of the store, which the server did not have at this version.
    missing: Option<(Key, Uid, ResourceVersion)>,
    /// The era in which the latest list began.
    era: u64,
    /// The era whose beginning has cut a delay short. Once only: a server that was restored may keep on failing.
    noticed: u64,
    /// The highest version of a write that was answered before the latest list began.
    written: ResourceVersion,
    /// Streaming lists in a row that did not complete.
    broken_streams: u32,
    /// Whether a delay was cut short since the last watch that worked.
    has_hurried: bool,
    /// When the latest list began.
    listed: Instant,
}

struct Resync {
    period: Duration,
    due: Instant,
}

/// What to do next. A watch is resumed from the version that the store has reached.
enum State {
    Listing,
    Watching(Option<Connection>),
}

struct Connection {
    events: Events,
    opened: Instant,
    /// When the server should end the watch, and when the connection is considered dead.
    end: Instant,
    deadline: Instant,
    /// Whether an event was received after the initial list.
    received: bool,
}

impl Reflector {
    pub(crate) fn new(
        source: Arc<dyn Source>,
        writer: Arc<dyn AnyStoreWriter>,
        state: Arc<InformerState>,
        record: Arc<Record>,
        options: &InformerOptions,
        mut rng: StdRng,
    ) -> Self {
        let resync =
            options.resync.filter(|period| !period.is_zero()).map(|period| Resync::begin(period, &mut rng));
        Self {
            source,
            writer,
            state,
            record,
            rng,
            backoff: Backoff::default(),
            resync,
            streams: options.streams,
            pages_until: None,
            may_be_restored: false,
            missing: None,
            era: 0,
            noticed: 0,
            written: ResourceVersion(0),
            broken_streams: 0,
            has_hurried: false,
            listed: Instant::now(),
        }
    }

    /// Runs until the task is aborted, which is safe at any await.
    pub(crate) async fn run(mut self) {
        let mut state = State::Listing;
        loop {
            let listing = matches!(state, State::Listing);
            // A panic must not end the informer.
            let step = AssertUnwindSafe(self.step(state)).catch_unwind().await;
            state = match step.unwrap_or_else(|_| Err(panicked())) {
                Ok(next) => next,
                Err(failure) => self.recover(listing, &failure).await,
            };
        }
    }

    async fn step(&mut self, state: State) -> Result<State, Failure> {
        match state {
            State::Listing => self.list().await.map(State::Watching),
            State::Watching(connection) => self.watch(connection).await,
        }
    }

    /// The state after a watch has ended. Some aggregated APIs have no resourceVersions: only a list shows which of
    /// their objects were deleted between two watches.
    fn after_watch(&self) -> State {
        let resumable = !self.writer.version_reached().is_unknown();
        if resumable { State::Watching(None) } else { State::Listing }
    }

    /// Waits after a failure, and decides whether the watch can be resumed.
    async fn recover(&mut self, listing: bool, failure: &Failure) -> State {
        if failure.class == Class::Encoding {
            // Happens once, so it needs no delay. The list also repairs what was skipped.
            Counters::add(&self.state.counters.json_fallbacks, 1);
            warn!(resource = %self.state.resource, error = failure.chain(),
                "objects cannot be read as protobuf, requesting JSON from now on");
            return State::Listing;
        }
        Counters::add(&self.state.counters.failures, 1);
        match failure.class {
            Class::Unreachable => self.state.era.contact.lost(),
            _ => self.state.era.contact.found(),
        }
        self.lost_watch();
        if failure.class == Class::NotServed {
            // It has no objects that could contradict those of other caches.
            self.state.doubt.end();
        }
        let error = failure.chain();
        let first_loss = failure.class == Class::VersionUnusable
            && !listing
            && self.backoff.is_fresh()
            && self.listed.elapsed() >= BETWEEN_RELISTS;
        let is_first = self.backoff.is_fresh();
        let delay = self.backoff.next(&mut self.rng);
        let delay = delay.max(failure.retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER));
        if first_loss {
            // Usually not a failure: the version to resume from was compacted. (Or a panic, which was logged where it
            // happened.)
            debug!(resource = %self.state.resource, error, "the watch cannot be resumed, listing again");
        } else {
            self.record.failed(&error);
            warn!(resource = %self.state.resource, error, delay = ?delay, "list or watch failed, retrying");
            let may_hurry = failure.class == Class::Unreachable && !is_first && !self.has_hurried;
            tokio::select! {
                biased;
                () = self.state.era.ended(self.era.max(self.noticed)) => {
                    self.noticed = self.state.era.now();
                    return State::Listing;
                }
                () = sleep(delay) => {}
                // Another informer has reached the server. Once only: the cause may be on this connection.
                () = self.state.era.contact.regained(), if may_hurry => {
                    self.has_hurried = true;
                    self.backoff.reset();
                }
            }
        }
        let may_resume =
            !listing && matches!(failure.class, Class::Passing | Class::NotServed | Class::Unreachable);
        if may_resume { State::Watching(None) } else { State::Listing }
    }

    /// Updates the store to the server's current state. A streaming list returns its connection, which continues as a
    /// watch.
    async fn list(&mut self) -> Result<Option<Connection>, Failure> {
        if self.state.doubt.lasts().is_some() {
            // A list may take long. Whether there was a restore is known sooner.
            match self.is_server_restored().await {
                Err(failure) if failure.class != Class::Refused => return Err(failure),
                _ => {}
            }
        }
        self.listed = Instant::now();
        self.missing = None;
        self.era = self.state.era.now();
        self.written = self.state.written();
        // This list also serves the requests for a relist or a bookmark that were made before it.
        let _answered = self.state.relist_requests.notified().now_or_never();
        let _answered = self.state.bookmark_requests.notified().now_or_never();
        let streams = self.streams && self.pages_until.is_none_or(|until| until <= Instant::now());
        if streams && self.broken_streams < BROKEN_STREAMS {
            match self.stream_list().await {
                Ok(Some(connection)) => {
                    self.state.doubt.end();
                    return Ok(Some(connection));
                }
                Ok(None) => {
                    debug!(resource = %self.state.resource, "the streaming list did not complete, using a paged list")
                }
                Err(failure) if failure.class == Class::Refused => {
                    debug!(resource = %self.state.resource, error = failure.chain(), "streaming lists are not supported, using a paged list");
                }
                Err(failure) => return Err(failure),
            }
            self.pages_until = Some(Instant::now() + PAGES_FOR);
        }
        self.page_list().await?;
        self.broken_streams = 0;
        self.may_be_restored = false;
        self.state.doubt.end();
        Ok(None)
    }

    /// `None` if the server sends objects but no end bookmark: it does not support streaming lists.
    async fn stream_list(&mut self) -> Result<Option<Connection>, Failure> {
        Counters::add(&self.state.counters.streamed_lists, 1);
        let lifetime = self.lifetime();
        // Before the request: the server decides what the list shows before it responds.
        let mut list = self.writer.clone().begin_list();
        let mut connection = self.open(WatchFrom::Scratch, lifetime).await?;
        // Reset when the list completes.
        self.broken_streams += 1;
        loop {
            let silence = connection.deadline.min(Instant::now() + LIST_SILENCE);
            let Ok(next) = timeout_at(silence, connection.events.next()).await else { return Ok(None) };
            let event = next.unwrap_or_else(|| Err(broken_off("streaming a list")))?;
            // Events may come faster than they are handled: let other tasks of this thread run.
            consume_budget().await;
            self.count(&event);
            match event.kind {
                EventKind::Applied => list.listed(&event.object),
                EventKind::Deleted => list.unlisted(&event.object),
                EventKind::Bookmark => {
                    if let Some(mark) = bookmark(&event.object).filter(|mark| mark.ends_list) {
                        info!(resource = %self.state.resource, objects = list.len(), version = %mark.version, "listed");
                        if list.finish(mark.version) | self.is_behind_writes(mark.version) {
                            self.end_era("a list");
                        }
                        self.broken_streams = 0;
                        return Ok(Some(connection));
                    }
                }
            }
            self.check_encoding()?;
        }
    }

    /// Fails if an object could not be read as protobuf.
    fn check_encoding(&self) -> Result<(), Failure> {
        let Some(error) = self.state.take_unreadable() else { return Ok(()) };
        // A server that answers protobuf to a request for JSON may do so again: then with a delay.
        let class = if self.source.fall_back_to_json() { Class::Encoding } else { Class::VersionUnusable };
        Err(Failure { class, doing: "decoding", retry_after: None, cause: error.into() })
    }

    /// An expired continue token fails the whole list, since all pages must show one version.
    async fn page_list(&mut self) -> Result<(), Failure> {
        Counters::add(&self.state.counters.paged_lists, 1);
        self.state.era.connecting();
        let mut list = self.writer.clone().begin_list();
        let mut after: Option<String> = None;
        let mut used = HashSet::new();
        loop {
            let page = self.source.page(PAGE, after).await?;
            Counters::add(&self.state.counters.pages, 1);
            for item in &page.items {
                list.listed(item);
                self.check_encoding()?;
                consume_budget().await;
            }
            let Some(token) = page.next else {
                info!(resource = %self.state.resource, objects = list.len(), version = %page.version, "listed");
                if list.finish(page.version) | self.is_behind_writes(page.version) {
                    self.end_era("a list");
                }
                self.healthy();
                return Ok(());
            };
            if !used.insert(token.clone()) {
                return Err(repeated(&self.state.resource, &token));
            }
            after = Some(token);
        }
    }

    /// Whether a list of this version lacks writes that were answered before it began.
    fn is_behind_writes(&self, version: ResourceVersion) -> bool {
        !version.is_unknown() && version < self.written
    }

    fn lifetime(&mut self) -> Duration {
        Duration::from_secs(self.rng.random_range(WATCH_SECONDS))
    }

    async fn open(&mut self, from: WatchFrom, lifetime: Duration) -> Result<Connection, Failure> {
        let opened = Instant::now();
        let (end, deadline) = (opened + lifetime, opened + lifetime + SLACK);
        Counters::add(&self.state.counters.watches, 1);
        self.state.era.connecting();
        // Some proxies hold back the response headers until the first event, so opening may take as long as watching.
        let events = match timeout_at(deadline, self.source.watch(from, lifetime)).await {
            Ok(events) => events?,
            Err(_) => return Err(unanswered()),
        };
        self.healthy();
        self.may_be_restored = false;
        Ok(Connection { events, opened, end, deadline, received: false })
    }

    /// Processes a watch until it ends, and returns the next state: usually, to resume the watch at once.
    async fn watch(&mut self, connection: Option<Connection>) -> Result<State, Failure> {
        let mut connection = match connection {
            Some(connection) => connection,
            None if self.may_be_restored && self.is_server_restored().await? => return Ok(State::Listing),
            None => {
                // If an object is missing, the bookmark that ends the wait for its deletion should come soon.
                let lifetime = if self.missing.is_some() { BOOKMARK_WATCH } else { self.lifetime() };
                self.open(WatchFrom::Version(self.writer.version_reached()), lifetime).await?
            }
        };
        loop {
            // Events last: a busy watch must not keep the others back.
            let next = tokio::select! {
                biased;
                () = self.era_ended() => return Ok(State::Listing),
                () = self.relist_requested() => {
                    info!(resource = %self.state.resource, "a relist was requested");
                    return Ok(State::Listing);
                }
                () = self.state.bookmark_requests.notified() => return self.resume_for_bookmark().await,
                () = Resync::due(self.resync.as_ref()) => {
                    self.resync_now().await;
                    continue;
                }
                next = timeout_at(connection.deadline, connection.events.next()) => next,
            };
            match next {
                Err(_) => {
                    Counters::add(&self.state.counters.idle_watches, 1);
                    info!(resource = %self.state.resource, "a watch did not end at its timeout, opening a new one");
                    self.lost_watch();
                    return Ok(self.after_watch());
                }
                Ok(None) if !connection.received && connection.opened.elapsed() < SHORTEST_WATCH => {
                    return Err(broken_off("watching"));
                }
                Ok(None) => {
                    // A server that shuts down also ends its watches without an error.
                    if !connection.received || Instant::now() + EARLY_END_TOLERANCE < connection.end {
                        self.lost_watch();
                    }
                    return Ok(self.after_watch());
                }
                Ok(Some(event)) => {
                    let goes_back = self.follow(&event?, &mut connection);
                    self.check_encoding()?;
                    if goes_back {
                        self.end_era("a bookmark");
                        return Ok(State::Listing);
                    }
                    if self.is_missing() {
                        self.end_era("a missing object");
                        return Ok(State::Listing);
                    }
                }
            }
            consume_budget().await;
        }
    }

    /// Gets the server's current version: from a list of few objects, or else from the bookmark at the end of a short
    /// watch.
    async fn resume_for_bookmark(&mut self) -> Result<State, Failure> {
        if self.writer.version_reached().is_unknown() || self.writer.len() <= LIST_FOR_VERSION_UP_TO {
            return Ok(State::Listing);
        }
        debug!(resource = %self.state.resource, "resuming the watch to get a bookmark");
        let resumed = WatchFrom::Version(self.writer.version_reached());
        self.open(resumed, BOOKMARK_WATCH).await.map(|connection| State::Watching(Some(connection)))
    }

    /// Whether the server has an older state than the store, because etcd was restored. A watch does not show that.
    async fn is_server_restored(&mut self) -> Result<bool, Failure> {
        let reached = self.writer.version_reached();
        if reached.is_unknown() {
            self.state.doubt.end();
            return Ok(false);
        }
        // What is written after the request may be missing in its response.
        let written = self.state.written();
        let mut newest = self.writer.newest();
        let mut page = self.source.present(newest.as_ref().map(|newest| &newest.key)).await;
        if newest.is_some() && page.as_ref().is_err_and(|failure| failure.class == Class::Refused) {
            // Some aggregated APIs support no field selectors.
            page = self.source.present(None).await;
            newest = None;
        }
        let page = page?;
        self.state.era.contact.found();
        let there = page.items.first().filter(|_| newest.is_some()).and_then(header);
        let present = Present { version: page.version, newest: there };
        let evidence = match !page.version.is_unknown() && page.version < written {
            true => Evidence::Restored,
            false => evidence(reached, newest.as_ref(), &present),
        };
        self.missing = newest
            .filter(|_| evidence == Evidence::Missing)
            .map(|Newest { key, header, .. }| (key, header.uid, page.version));
        match evidence {
            Evidence::None => self.state.doubt.end(),
            Evidence::Missing => {}
            Evidence::Restored => self.end_era("the current version"),
        }
        Ok(evidence == Evidence::Restored)
    }

    /// Whether the store still has an object that was missing on the server, although the watch has shown everything up to
    /// then.
    fn is_missing(&mut self) -> bool {
        let Some((key, uid, version)) = &self.missing else { return false };
        let is_held = self.writer.holds(key, uid);
        let is_missing = is_held && self.writer.version_reached() >= *version;
        if is_missing || !is_held {
            self.missing = None;
        }
        if !is_held {
            self.state.doubt.end();
        }
        is_missing
    }

    /// The watch has ended as it does when the server is restored.
    fn lost_watch(&mut self) {
        self.may_be_restored = true;
        if self.state.has_synced() {
            self.state.doubt.begin();
        }
    }

    fn end_era(&self, noticed_by: &'static str) {
        let (resource, reached) = (&self.state.resource, self.writer.version_reached());
        if self.state.era.end(self.era) {
            warn!(%resource, %reached, noticed_by, "the server has gone back to an earlier version; listing all resources again");
        }
    }

    /// Completes when any informer has detected a restore of etcd since the latest list began.
    async fn era_ended(&self) {
        self.state.era.ended(self.era).await;
    }

    /// Applies an event. Returns `true` if it shows that etcd was restored: within a watch, versions only increase.
    fn follow(&mut self, event: &Event, connection: &mut Connection) -> bool {
        self.count(event);
        self.state.era.contact.found();
        self.writer.watched(event);
        if !connection.received {
            connection.received = true;
            // Not before the event was applied: if that panics each time, the delays must grow.
            self.backoff.reset();
            self.has_hurried = false;
        }
        if event.kind == EventKind::Bookmark
            && let Some(mark) = bookmark(&event.object)
        {
            let goes_back = mark.version < self.writer.version_reached();
            self.writer.advance(mark.version);
            return goes_back;
        }
        false
    }

    /// Completes when a relist has been requested, at most once in [`BETWEEN_RELISTS`].
    async fn relist_requested(&self) {
        sleep_until(self.listed + BETWEEN_RELISTS).await;
        self.state.relist_requests.notified().await;
    }

    async fn resync_now(&mut self) {
        debug!(resource = %self.state.resource, "resync");
        let mut next_batch = self.writer.clone().resync_batches();
        while next_batch() {
            tokio::task::yield_now().await;
        }
        if let Some(resync) = &mut self.resync {
            *resync = Resync::begin(resync.period, &mut self.rng);
        }
    }

    fn count(&self, event: &Event) {
        let counters = &self.state.counters;
        Counters::add(
            if event.kind == EventKind::Bookmark { &counters.bookmarks } else { &counters.events },
            1,
        );
    }

    fn healthy(&self) {
        self.state.era.contact.found();
        if let Some(outage) = self.record.recovered() {
            info!(resource = %self.state.resource, outage = ?outage, "list and watch work again");
        }
    }
}

impl Resync {
    /// Due after one to two periods, so that not all resources resync at once.
    fn begin(period: Duration, rng: &mut StdRng) -> Self {
        Self { period, due: Instant::now() + period.mul_f64(1.0 + rng.random::<f64>()) }
    }

    async fn due(resync: Option<&Self>) {
        match resync {
            Some(resync) => sleep_until(resync.due).await,
            None => std::future::pending().await,
        }
    }
}

fn broken_off(doing: &'static str) -> Failure {
    Failure {
        class: Class::Passing,
        doing,
        retry_after: None,
        cause: "the server ended the watch too early".into(),
    }
}

/// The server returned a continue token that it had returned before: such a list would never end.
fn repeated(resource: &impl Display, token: &str) -> Failure {
    let cause =
        format!("the server returned the continue token {token:?} of {resource} a second time").into();
    Failure { class: Class::Passing, doing: "listing by pages", retry_after: None, cause }
}

fn unanswered() -> Failure {
    let cause = "the server did not respond within the timeout of the watch".into();
    Failure { class: Class::Passing, doing: "opening a watch", retry_after: None, cause }
}

fn panicked() -> Failure {
    let cause = "a panic, logged where it happened".into();
    Failure {
        class: Class::VersionUnusable,
        doing: "handling what the server sent",
        retry_after: None,
        cause,
    }
}
