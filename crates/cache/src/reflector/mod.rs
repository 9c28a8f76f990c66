//! The task behind an informer: lists, watches, and recovers from failures. How it lists is in [`lists`], how it finds out whether
//! etcd was restored in [`restores`].
//!
//! Differences from upstream (client-go's reflector):
//! - A watch is resumed after most failures; upstream lists again unless the connection was refused or the server overloaded.
//!   So after [`UNOPENED`] watches in a row that could not be opened, this lists again, too, and polls by lists until a watch
//!   opens.
//! - A streaming list is attempted as often before it is taken by pages; upstream pages after the first failure.

mod failures;
mod lists;
mod restores;
mod resync;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::ResourceVersion;
use flyball_client::Chain;
use futures::{FutureExt, StreamExt};
use rand::Rng;
use rand::rngs::StdRng;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tracing::{debug, info, warn};

use self::failures::{broken_off, panicked, unanswered};
use self::resync::Resync;
use crate::backoff::Backoff;
use crate::decode::bookmark;
use crate::health::Record;
use crate::informers::InformerOptions;
use crate::metrics::Counters;
use crate::source::{Class, Event, EventKind, Events, Failure, Source, WatchFrom};
use crate::state::InformerState;
use crate::store_writer::AnyStoreWriter;
use crate::witness::{Missing, Witness};

/// Watches have a random timeout in this range, as in client-go.
const WATCH_SECONDS: std::ops::Range<u64> = 300..600;
/// The timeout of a watch that is opened to get a bookmark: the server sends one two seconds before the end of a watch, and
/// otherwise once a minute.
const BOOKMARK_WATCH: Duration = Duration::from_secs(3);
/// Up to this many objects, a list is faster than waiting for a bookmark.
const LIST_FOR_VERSION_UP_TO: usize = 1000;
/// How long after its timeout a watch that has not ended is considered dead.
const SLACK: Duration = Duration::from_secs(30);
/// After this many attempts in a row to open a watch, the cache is listed again, by pages, before each further attempt: lists may
/// work where watches do not, as behind a proxy that buffers responses, or with a role that lacks the verb.
const UNOPENED: u32 = 3;
/// A watch that ends sooner without an event is a failure: opening the next one at once would be a hot loop.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);
/// The longest Retry-After that is respected.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);
/// A watch that ends earlier than its timeout by more than this did not end because of the timeout.
const EARLY_END_TOLERANCE: Duration = Duration::from_secs(2);
/// The least time between a list and a relist that is requested, or that follows a lost version without a delay.
const BETWEEN_RELISTS: Duration = Duration::from_secs(10);

/// Keeps a store up to date with its [`Source`].
pub(crate) struct Reflector {
    source: Arc<dyn Source>,
    writer: Arc<dyn AnyStoreWriter>,
    state: Arc<InformerState>,
    witness: Arc<Witness>,
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
    /// Objects of the store that the server did not have at a version which the watch has not reached yet.
    missing: Vec<Missing>,
    /// The era in which the latest list began.
    era: u64,
    /// The era whose beginning has ended a retry delay early. That happens once per era: a restored server may keep failing.
    noticed: u64,
    /// The highest version of a write that was answered before the latest list began.
    written: ResourceVersion,
    /// Streaming lists in a row that did not complete.
    broken_streams: u32,
    /// Watches in a row, streaming lists included, that could not be opened or ended at once.
    unopened: u32,
    /// Whether a delay was cut short since the last watch that worked.
    has_hurried: bool,
    /// When the latest list began.
    listed: Instant,
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
        let (from, to, of) = (source.clone(), writer.clone(), state.clone());
        let witness = Arc::new(Witness { source: from, writer: to, state: of });
        state.era.add_witness(&witness);
        Self {
            source,
            writer,
            state,
            witness,
            record,
            rng,
            backoff: Backoff::default(),
            resync,
            streams: options.streams,
            pages_until: None,
            may_be_restored: false,
            missing: Vec::new(),
            era: 0,
            noticed: 0,
            written: ResourceVersion(0),
            broken_streams: 0,
            unopened: 0,
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
        if failure.class == Class::Encoding && self.source.fall_back_to_json() {
            // The next list also repairs what was skipped.
            Counters::add(&self.state.counters.json_fallbacks, 1);
            warn!(resource = %self.state.resource, error = %Chain(failure),
                "objects cannot be read as protobuf, requesting JSON from now on");
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
        let error = Chain(failure).to_string();
        let first_loss = matches!(failure.class, Class::VersionUnusable | Class::Encoding)
            && !listing
            && self.backoff.is_fresh()
            && self.listed.elapsed() >= BETWEEN_RELISTS;
        let is_first = self.backoff.is_fresh();
        let delay = self.backoff.next(&mut self.rng);
        let delay = delay.max(failure.retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER));
        if first_loss {
            // Usually not a failure: the version to resume from was compacted. (Or a panic or a change of encoding, which were
            // logged.)
            debug!(resource = %self.state.resource, error, "the watch cannot be resumed, listing again");
        } else {
            self.record.failed(&error);
            warn!(resource = %self.state.resource, error, delay = ?delay, "list or watch failed, retrying");
            if failure.class != Class::Unreachable {
                self.end_doubt_by_others().await;
            }
            let may_hurry = failure.class == Class::Unreachable && !is_first && !self.has_hurried;
            tokio::select! {
                biased;
                () = self.state.era.ended(self.era.max(self.noticed)) => {
                    self.noticed = self.state.era.now();
                    return State::Listing;
                }
                () = sleep(delay) => {}
                // Another informer has reached the server, so retry now. Once only: the cause may be this connection.
                () = self.state.era.contact.regained(), if may_hurry => {
                    self.has_hurried = true;
                    self.backoff.reset();
                }
            }
        }
        // Who requested a relist may wait for it, and must not wait until a watch can be opened.
        let is_relist_requested = self.state.relist_requests.notified().now_or_never().is_some();
        let may_resume = !listing
            && !is_relist_requested
            && self.unopened < UNOPENED
            && matches!(failure.class, Class::Passing | Class::NotServed | Class::Unreachable);
        if may_resume { State::Watching(None) } else { State::Listing }
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
        let watch = timeout_at(deadline, self.source.watch(from, lifetime)).await;
        let events = watch.unwrap_or_else(|_| Err(unanswered())).inspect_err(|failure| {
            // By a server that does not support streaming lists.
            let is_of_list = failure.class == Class::Refused && from == WatchFrom::Scratch;
            self.unopened += u32::from(!is_of_list && may_block_watches(failure));
        })?;
        self.state.era.contact.found();
        self.may_be_restored = false;
        if self.unopened < UNOPENED {
            self.healthy();
        }
        Ok(Connection { events, opened, end, deadline, received: false })
    }

    /// Processes a watch until it ends, and returns the next state: usually, to resume the watch at once.
    async fn watch(&mut self, connection: Option<Connection>) -> Result<State, Failure> {
        let mut connection = match connection {
            Some(connection) => connection,
            None if self.may_be_restored && self.is_server_restored().await? => return Ok(State::Listing),
            None => {
                // If an object is missing, the bookmark that ends the wait for its deletion should come soon.
                let lifetime = if self.missing.is_empty() { self.lifetime() } else { BOOKMARK_WATCH };
                self.open(WatchFrom::Version(self.writer.version_reached()), lifetime).await?
            }
        };
        loop {
            // Events are polled last: a busy watch must not starve the other branches.
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
                () = self.watch_proven(connection.opened) => {
                    self.record_working_watch();
                    continue;
                }
                next = timeout_at(connection.deadline, connection.events.next()) => next,
            };
            let Ok(next) = next else {
                Counters::add(&self.state.counters.idle_watches, 1);
                info!(resource = %self.state.resource, "a watch did not end at its timeout, opening a new one");
                self.lost_watch();
                return Ok(self.after_watch());
            };
            let Some(event) = next else { return self.watch_ended(&connection) };
            if let Some(state) = self.received(event, &mut connection)? {
                return Ok(state);
            }
            consume_budget().await;
        }
    }

    /// The state after the server has ended a watch.
    fn watch_ended(&mut self, connection: &Connection) -> Result<State, Failure> {
        if connection.would_count_as_unopened() {
            self.unopened += 1;
            return Err(broken_off("watching"));
        }
        // A server that shuts down also ends its watches without an error.
        if !connection.received || Instant::now() + EARLY_END_TOLERANCE < connection.end {
            self.lost_watch();
        }
        Ok(self.after_watch())
    }

    /// Processes what a watch has received. Returns the next state if the watch is not continued.
    fn received(
        &mut self,
        event: Result<Event, Failure>,
        connection: &mut Connection,
    ) -> Result<Option<State>, Failure> {
        let event = event.inspect_err(|failure| {
            self.unopened += u32::from(connection.would_count_as_unopened() && may_block_watches(failure));
        })?;
        let goes_back = self.follow(&event, connection);
        self.check_encoding()?;
        if goes_back {
            self.went_back("a bookmark");
            return Ok(Some(State::Listing));
        }
        if self.is_missing() {
            self.went_back("a missing object");
            return Ok(Some(State::Listing));
        }
        Ok(None)
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
            self.record_working_watch();
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

    /// Completes when a silent watch has lasted long enough to count as working. Never, if the last watches could be opened.
    async fn watch_proven(&self, opened: Instant) {
        match self.unopened {
            0 => std::future::pending().await,
            _ => sleep_until(opened + SHORTEST_WATCH).await,
        }
    }

    /// Records that a watch works: it has lasted long enough, or has received something.
    fn record_working_watch(&mut self) {
        if std::mem::take(&mut self.unopened) > 0 {
            self.healthy();
        }
    }

    fn healthy(&self) {
        self.state.era.contact.found();
        if let Some(outage) = self.record.recovered() {
            info!(resource = %self.state.resource, outage = ?outage, "list and watch work again");
        }
    }
}

impl Connection {
    /// Whether the watch is so new that it would count as failed if it ended now.
    fn would_count_as_unopened(&self) -> bool {
        !self.received && self.opened.elapsed() < SHORTEST_WATCH
    }
}

/// Whether the failure suggests that watches do not work at all although lists do. A server that rejects a version or an encoding
/// does handle watches.
fn may_block_watches(failure: &Failure) -> bool {
    !matches!(failure.class, Class::VersionUnusable | Class::Encoding) && !failure.is_of_server()
}
