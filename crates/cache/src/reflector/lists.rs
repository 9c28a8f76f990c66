//! Lists: streamed where the server can do so, by pages otherwise.

use std::collections::HashSet;
use std::time::Duration;

use flyball_api::ResourceVersion;
use flyball_client::Chain;
use futures::{FutureExt, StreamExt};
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, timeout_at};
use tracing::{debug, info};

use super::failures::{broken_off, repeated};
use super::{Connection, Reflector, UNOPENED};
use crate::decode::bookmark;
use crate::metrics::Counters;
use crate::source::{Class, EventKind, Failure, WatchFrom};

/// Objects on one page of a list, as in client-go's pager.
const PAGE: u32 = 500;
/// A server that sends nothing for this long during a streaming list does not support the bookmark that ends the list.
const LIST_SILENCE: Duration = Duration::from_secs(30);
/// After this many incomplete streaming lists in a row, the next list is paged: over a bad connection a long stream
/// might never complete.
const BROKEN_STREAMS: u32 = 3;
/// How long lists are paged after a streaming list was refused, before streaming is tried again.
const PAGES_FOR: Duration = Duration::from_secs(600);

impl Reflector {
    /// Updates the store to the server's current state. A streaming list returns its connection, which continues as a
    /// watch.
    pub(super) async fn list(&mut self) -> Result<Option<Connection>, Failure> {
        if self.state.doubt.lasts().is_some() {
            // A list may take long. Whether there was a restore is known sooner.
            match self.is_server_restored().await {
                Err(failure) if failure.class != Class::Refused => return Err(failure),
                _ => {}
            }
        }
        if self.state.has_gone_back_alone() {
            self.check_others().await;
        }
        self.listed = Instant::now();
        self.missing.clear();
        self.era = self.state.era.now();
        self.written = self.state.written();
        // This list also serves the requests for a relist or a bookmark that were made before it.
        let _answered = self.state.relist_requests.notified().now_or_never();
        let _answered = self.state.bookmark_requests.notified().now_or_never();
        let streams = self.streams && self.pages_until.is_none_or(|until| until <= Instant::now());
        if streams && self.broken_streams < BROKEN_STREAMS && self.unopened < UNOPENED {
            match self.stream_list().await {
                Ok(Some(connection)) => {
                    self.state.doubt.end();
                    return Ok(Some(connection));
                }
                Ok(None) => {
                    debug!(resource = %self.state.resource, "the streaming list did not complete, using a paged list")
                }
                Err(failure) if failure.class == Class::Refused => {
                    debug!(resource = %self.state.resource, error = %Chain(&failure), "streaming lists are not supported, using a paged list");
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
                            self.went_back("a list");
                        }
                        self.broken_streams = 0;
                        self.record_working_watch();
                        return Ok(Some(connection));
                    }
                }
            }
            self.check_encoding()?;
        }
    }

    /// Fails if an object could not be read as protobuf.
    pub(super) fn check_encoding(&self) -> Result<(), Failure> {
        let Some(error) = self.state.take_unreadable() else { return Ok(()) };
        Err(Failure { class: Class::Encoding, doing: "decoding", retry_after: None, cause: error.into() })
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
                    self.went_back("a list");
                }
                self.state.era.contact.found();
                if self.unopened < UNOPENED {
                    self.healthy();
                }
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
}
