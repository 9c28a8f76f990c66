//! The task behind an informer: lists, watches, and finds its way back after every kind of failure.

use std::collections::HashSet;
use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use rand::Rng;
use rand::rngs::StdRng;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tracing::{debug, info, warn};

use crate::backoff::Backoff;
use crate::course::Course;
use crate::decode::{bookmark, header};
use crate::era::{Present, went_back};
use crate::health::Record;
use crate::metrics::Counters;
use crate::mirror::AnyMirror;
use crate::source::{Class, Event, EventKind, Events, Failure, Source, WatchFrom};

/// Objects on one page of a list, as client-go's pager asks for.
const PAGE: u32 = 500;
/// The server is asked to end a watch after a random time between these, as client-go does.
const WATCH_SECONDS: std::ops::Range<u64> = 300..600;
/// Asked for so short a watch, the server sends a bookmark after a second or two: two seconds before the end, where it
/// would otherwise take a minute.
const HASTY_WATCH: Duration = Duration::from_secs(3);
/// So few objects are listed sooner than a bookmark comes.
const LISTED_SOONER: usize = 1000;
/// How much longer than that we wait for the server to do so before we take the connection for dead.
const SLACK: Duration = Duration::from_secs(30);
/// A streaming list that stays silent for so long comes from a server that does not know the end bookmark.
const LIST_SILENCE: Duration = Duration::from_secs(30);
/// After so many streaming lists in a row that broke off, one is taken by pages: a long list over a bad line would never
/// come to its end in one piece.
const BROKEN_STREAMS: u32 = 3;
/// A watch that ends sooner, without a word, is a failure: opening the next one at once would be a hot loop.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);
/// A server that asks to be left alone longer than this is asked again nevertheless.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);
/// How long lists are taken by pages from a server that did not do streaming lists, before it is asked again.
const PAGES_FOR: Duration = Duration::from_secs(600);
/// A watch that ends so much sooner than it was asked to was not ended by the clock.
const EARLY: Duration = Duration::from_secs(2);
/// The least time between a list and another because the watch is doubted.
const BETWEEN_DOUBTS: Duration = Duration::from_secs(10);

/// Keeps a [`Mirror`](crate::mirror::Mirror) true to its [`Source`].
pub(crate) struct Reflector {
    source: Arc<dyn Source>,
    mirror: Arc<dyn AnyMirror>,
    course: Arc<Course>,
    record: Arc<Record>,
    rng: StdRng,
    backoff: Backoff,
    resync: Option<Resync>,
    /// Until when the server is believed not to do streaming lists.
    pages_until: Option<Instant>,
    /// Whether the server may have gone back since the watch was last in order.
    unsure: bool,
    /// The era in which the latest list began.
    era: u64,
    /// Streaming lists in a row that did not come to their end.
    broken: u32,
    /// When the latest list began.
    listed: Instant,
}

struct Resync {
    period: Duration,
    due: Instant,
}

/// What to do next. The version to resume from is the store's.
enum State {
    Listing,
    Watching(Option<Connection>),
}

struct Connection {
    events: Events,
    opened: Instant,
    /// When the server shall end it, and when it must have done so.
    end: Instant,
    deadline: Instant,
    /// Whether anything came since the list it may have begun with.
    heard: bool,
}

impl Reflector {
    pub(crate) fn new(
        source: Arc<dyn Source>,
        mirror: Arc<dyn AnyMirror>,
        course: Arc<Course>,
        record: Arc<Record>,
        resync: Option<Duration>,
        mut rng: StdRng,
    ) -> Self {
        let resync = resync.filter(|period| !period.is_zero()).map(|period| Resync::begin(period, &mut rng));
        Self {
            source,
            mirror,
            course,
            record,
            rng,
            backoff: Backoff::default(),
            resync,
            pages_until: None,
            unsure: false,
            era: 0,
            broken: 0,
            listed: Instant::now(),
        }
    }

    /// Runs until the task is aborted. Nothing is held across an await that an abort could leave half done.
    pub(crate) async fn run(mut self) {
        let mut state = State::Listing;
        loop {
            let listing = matches!(state, State::Listing);
            // A type whose decoding panics must not end the informer for good, nor go unnoticed.
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

    /// Some aggregated APIs give no versions. What they deleted between two watches only a list can tell.
    fn after_watch(&self) -> State {
        let resumable = !self.mirror.version_reached().is_unknown();
        if resumable { State::Watching(None) } else { State::Listing }
    }

    /// Waits as long as the failure calls for, and decides whether the watch can be resumed.
    async fn recover(&mut self, listing: bool, failure: &Failure) -> State {
        Counters::add(&self.course.counters.failures, 1);
        let error = failure.chain();
        let first_loss = failure.class == Class::VersionUnusable && !listing && self.backoff.is_fresh();
        let delay = self.backoff.next(&mut self.rng);
        let delay = delay.max(failure.retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER));
        if first_loss {
            // Nothing is wrong with the server; our place in its history was compacted away.
            debug!(resource = %self.course.resource, error, "lost the place in the watch, listing anew");
        } else {
            self.record.failed(&error);
            warn!(resource = %self.course.resource, error, delay = ?delay, "list or watch failed, retrying");
            tokio::select! {
                () = sleep(delay) => {}
                () = self.restored() => return State::Listing,
            }
        }
        self.unsure = true;
        if listing || failure.class != Class::Passing { State::Listing } else { State::Watching(None) }
    }

    /// Brings the store to the server's current state; the watch that a streaming list has become is handed on.
    async fn list(&mut self) -> Result<Option<Connection>, Failure> {
        self.listed = Instant::now();
        self.era = self.course.era.now();
        // Doubts from before this moment are what the list is the answer to.
        let _answered = self.course.doubts.notified().now_or_never();
        let _answered = self.course.haste.notified().now_or_never();
        let streams = self.pages_until.is_none_or(|until| until <= Instant::now());
        if streams && self.broken < BROKEN_STREAMS {
            match self.stream_list().await {
                Ok(Some(connection)) => return Ok(Some(connection)),
                Ok(None) => {
                    debug!(resource = %self.course.resource, "a streaming list did not end, listing by pages")
                }
                Err(failure) if failure.class == Class::Refused => {
                    debug!(resource = %self.course.resource, error = failure.chain(), "no streaming lists, listing by pages");
                }
                Err(failure) => return Err(failure),
            }
            self.pages_until = Some(Instant::now() + PAGES_FOR);
        }
        self.page_list().await?;
        self.broken = 0;
        self.unsure = false;
        Ok(None)
    }

    /// `None` if the server sends objects but no end bookmark: it knows watches from scratch, not streaming lists.
    async fn stream_list(&mut self) -> Result<Option<Connection>, Failure> {
        Counters::add(&self.course.counters.streamed_lists, 1);
        let lifetime = self.lifetime();
        let mut connection = self.open(WatchFrom::Scratch, lifetime).await?;
        // Until it has come to its end.
        self.broken += 1;
        let mut list = self.mirror.clone().begin_list();
        loop {
            let silence = connection.deadline.min(Instant::now() + LIST_SILENCE);
            let Ok(next) = timeout_at(silence, connection.events.next()).await else { return Ok(None) };
            let event = next.unwrap_or_else(|| Err(broken_off("streaming a list")))?;
            // Events may come faster than they are handled: other tasks of this thread get their turn, too.
            consume_budget().await;
            self.count(&event);
            match event.kind {
                EventKind::Applied => list.listed(&event.object),
                EventKind::Deleted => list.unlisted(&event.object),
                EventKind::Bookmark => {
                    if let Some(mark) = bookmark(&event.object).filter(|mark| mark.ends_list) {
                        info!(resource = %self.course.resource, objects = list.len(), version = %mark.version, "listed");
                        list.finish(mark.version);
                        self.broken = 0;
                        return Ok(Some(connection));
                    }
                }
            }
        }
    }

    /// A page token that has expired fails the list, and with it begins another: all pages show one version.
    async fn page_list(&mut self) -> Result<(), Failure> {
        Counters::add(&self.course.counters.paged_lists, 1);
        let mut list = self.mirror.clone().begin_list();
        let mut after: Option<String> = None;
        let mut used = HashSet::new();
        loop {
            let page = self.source.page(PAGE, after).await?;
            Counters::add(&self.course.counters.pages, 1);
            for item in &page.items {
                list.listed(item);
                consume_budget().await;
            }
            let Some(token) = page.next else {
                info!(resource = %self.course.resource, objects = list.len(), version = %page.version, "listed");
                list.finish(page.version);
                self.healthy();
                return Ok(());
            };
            if !used.insert(token.clone()) {
                return Err(repeated(&self.course.resource, &token));
            }
            after = Some(token);
        }
    }

    fn lifetime(&mut self) -> Duration {
        Duration::from_secs(self.rng.random_range(WATCH_SECONDS))
    }

    async fn open(&mut self, from: WatchFrom, lifetime: Duration) -> Result<Connection, Failure> {
        let opened = Instant::now();
        let (end, deadline) = (opened + lifetime, opened + lifetime + SLACK);
        Counters::add(&self.course.counters.watches, 1);
        // Some proxies hold the response headers back until the first event, so opening may take as long as watching.
        let events = match timeout_at(deadline, self.source.watch(from, lifetime)).await {
            Ok(events) => events?,
            Err(_) => return Err(unanswered()),
        };
        self.healthy();
        self.unsure = false;
        Ok(Connection { events, opened, end, deadline, heard: false })
    }

    /// Follows a watch to its end, and says what to do then, at once: as a rule the next one begins where this one
    /// ended.
    async fn watch(&mut self, connection: Option<Connection>) -> Result<State, Failure> {
        let mut connection = match connection {
            Some(connection) => connection,
            None if self.unsure && self.went_back().await? => return Ok(State::Listing),
            None => {
                let lifetime = self.lifetime();
                self.open(WatchFrom::Version(self.mirror.version_reached()), lifetime).await?
            }
        };
        loop {
            let next = tokio::select! {
                next = timeout_at(connection.deadline, connection.events.next()) => next,
                () = Resync::due(self.resync.as_ref()) => {
                    self.remind().await;
                    continue;
                }
                () = self.restored() => return Ok(State::Listing),
                () = self.course.haste.notified() => return self.make_haste().await,
                () = self.doubted() => {
                    info!(resource = %self.course.resource, "listing anew, as somebody doubts the cache");
                    return Ok(State::Listing);
                }
            };
            match next {
                Err(_) => {
                    Counters::add(&self.course.counters.idle_watches, 1);
                    info!(resource = %self.course.resource, "a watch outlived its time-out, replacing it");
                    self.unsure = true;
                    return Ok(self.after_watch());
                }
                Ok(None) if !connection.heard && connection.opened.elapsed() < SHORTEST_WATCH => {
                    return Err(broken_off("watching"));
                }
                Ok(None) => {
                    // Also servers that go down end their watches in good order.
                    self.unsure |= !connection.heard || Instant::now() + EARLY < connection.end;
                    return Ok(self.after_watch());
                }
                Ok(Some(event)) => {
                    if self.follow(&event?, &mut connection) {
                        self.end_era("a bookmark");
                        return Ok(State::Listing);
                    }
                }
            }
            consume_budget().await;
        }
    }

    /// Gets a word from the server on how far it is, at the least cost.
    async fn make_haste(&mut self) -> Result<State, Failure> {
        if self.mirror.version_reached().is_unknown() || self.mirror.len() <= LISTED_SOONER {
            return Ok(State::Listing);
        }
        debug!(resource = %self.course.resource, "resuming the watch with a bookmark soon");
        let resumed = WatchFrom::Version(self.mirror.version_reached());
        self.open(resumed, HASTY_WATCH).await.map(|connection| State::Watching(Some(connection)))
    }

    /// Asks whether the server has gone back behind what the store has seen, which a watch would not tell.
    async fn went_back(&mut self) -> Result<bool, Failure> {
        let reached = self.mirror.version_reached();
        if reached.is_unknown() {
            return Ok(false);
        }
        let newest = self.mirror.newest();
        let mut page = self.source.present(newest.as_ref().map(|(key, _)| key)).await;
        let mut shows_newest = newest.is_some();
        if newest.is_some() && page.as_ref().is_err_and(|failure| failure.class == Class::Refused) {
            // Some aggregated APIs select by no field.
            page = self.source.present(None).await;
            shows_newest = false;
        }
        let page = page?;
        let there = page.items.first().filter(|_| shows_newest).and_then(|object| header(object));
        let present = Present { version: page.version, newest: there };
        let went_back = went_back(reached, newest.as_ref().map(|(_, header)| header), &present);
        if went_back {
            self.end_era("its answer");
        }
        Ok(went_back)
    }

    fn end_era(&self, by: &'static str) {
        let (resource, reached) = (&self.course.resource, self.mirror.version_reached());
        if self.course.era.end(self.era) {
            warn!(%resource, %reached, by, "the server has gone back to an earlier version; listing everything anew");
        }
    }

    /// Somebody has noticed that the server has gone back, and the latest list is from before that.
    async fn restored(&self) {
        self.course.era.ended(self.era).await;
    }

    /// Takes over an event. True if it shows that the server has gone back: within a watch versions only grow.
    fn follow(&mut self, event: &Event, connection: &mut Connection) -> bool {
        if !connection.heard {
            connection.heard = true;
            self.backoff.reset();
        }
        self.count(event);
        self.mirror.watched(event);
        if event.kind == EventKind::Bookmark
            && let Some(mark) = bookmark(&event.object)
        {
            let goes_back = mark.version < self.mirror.version_reached();
            self.mirror.advance(mark.version);
            return goes_back;
        }
        false
    }

    /// Somebody misses something; told apart from somebody who will always miss something by how often it happens.
    async fn doubted(&self) {
        sleep_until(self.listed + BETWEEN_DOUBTS).await;
        self.course.doubts.notified().await;
    }

    async fn remind(&mut self) {
        debug!(resource = %self.course.resource, "resync");
        let mut remind = self.mirror.clone().reminders();
        while remind() {
            tokio::task::yield_now().await;
        }
        if let Some(resync) = &mut self.resync {
            *resync = Resync::begin(resync.period, &mut self.rng);
        }
    }

    fn count(&self, event: &Event) {
        let counters = &self.course.counters;
        Counters::add(
            if event.kind == EventKind::Bookmark { &counters.bookmarks } else { &counters.events },
            1,
        );
    }

    fn healthy(&self) {
        if let Some(outage) = self.record.recovered() {
            info!(resource = %self.course.resource, outage = ?outage, "list and watch work again");
        }
    }
}

impl Resync {
    /// Due after one to two periods, so that resources do not resync all together.
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
    Failure { class: Class::Passing, doing, retry_after: None, cause: "the server ended it too early".into() }
}

/// The pages of such a list would never end.
fn repeated(resource: &impl Display, token: &str) -> Failure {
    let cause = format!("the server gave the continue token {token:?} of {resource} a second time").into();
    Failure { class: Class::Passing, doing: "listing by pages", retry_after: None, cause }
}

fn unanswered() -> Failure {
    let cause = "the server did not answer within the watch's time-out".into();
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
