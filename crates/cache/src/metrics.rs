//! What an informer counts. The runtime turns it into metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds, in seconds, between which the time it takes to tell all subscribers of a change is counted.
pub const TOLD_WITHIN: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Counted by the informer's task, read by anyone.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) streamed_lists: AtomicU64,
    pub(crate) paged_lists: AtomicU64,
    pub(crate) pages: AtomicU64,
    pub(crate) relists: AtomicU64,
    pub(crate) watches: AtomicU64,
    pub(crate) idle_watches: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) bookmarks: AtomicU64,
    pub(crate) ignored_events: AtomicU64,
    pub(crate) decode_failures: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) handler_panics: AtomicU64,
    told: [AtomicU64; TOLD_WITHIN.len() + 1],
    told_nanos: AtomicU64,
}

/// An informer's counters at one moment; all but `objects` and `undecodable` only grow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lists begun as a stream of initial events.
    pub streamed_lists: u64,
    /// Lists begun page by page.
    pub paged_lists: u64,
    pub pages: u64,
    /// Lists completed after the first: the watch had lost its place.
    pub relists: u64,
    /// Watches opened, those that began with a streaming list included.
    pub watches: u64,
    /// Watches replaced because they outlived their time-out in silence.
    pub idle_watches: u64,
    pub events: u64,
    pub bookmarks: u64,
    /// Events that told nothing new: replayed or out of order.
    pub ignored_events: u64,
    /// Objects, in lists and events, that could not be decoded.
    pub decode_failures: u64,
    /// Requests refused, connections lost, watches broken off.
    pub failures: u64,
    pub handler_panics: u64,
    /// Changes told, by the first of [`TOLD_WITHIN`] that they took no longer than; the last took longer than all.
    pub told: [u64; TOLD_WITHIN.len() + 1],
    /// How long telling took in all.
    pub told_for: Duration,
    pub objects: usize,
    /// Objects known whose latest version cannot be decoded.
    pub undecodable: usize,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    /// A change was told to everybody.
    pub(crate) fn told(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        Self::add(&self.told[TOLD_WITHIN.partition_point(|bound| *bound < seconds)], 1);
        Self::add(&self.told_nanos, took.as_nanos() as u64);
    }

    pub(crate) fn read(&self, objects: usize, undecodable: usize) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            streamed_lists: get(&self.streamed_lists),
            paged_lists: get(&self.paged_lists),
            pages: get(&self.pages),
            relists: get(&self.relists),
            watches: get(&self.watches),
            idle_watches: get(&self.idle_watches),
            events: get(&self.events),
            bookmarks: get(&self.bookmarks),
            ignored_events: get(&self.ignored_events),
            decode_failures: get(&self.decode_failures),
            failures: get(&self.failures),
            handler_panics: get(&self.handler_panics),
            told: self.told.each_ref().map(get),
            told_for: Duration::from_nanos(get(&self.told_nanos)),
            objects,
            undecodable,
        }
    }
}
