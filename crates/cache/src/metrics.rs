//! Counters of an informer. The runtime turns them into metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets, in seconds, for the time it takes to deliver a change to all subscribers.
pub const DELIVERY_BUCKETS: [f64; 12] =
    [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

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
    pub(crate) json_fallbacks: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) handler_panics: AtomicU64,
    delivered: [AtomicU64; DELIVERY_BUCKETS.len() + 1],
    delivery_nanos: AtomicU64,
}

/// A snapshot of the counters; all but `objects` and `undecodable` only grow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lists begun as a stream of initial events.
    pub streamed_lists: u64,
    /// Lists begun page by page.
    pub paged_lists: u64,
    pub pages: u64,
    /// Lists completed after the first.
    pub relists: u64,
    /// Watches opened, including those that began with a streaming list.
    pub watches: u64,
    /// Watches replaced because they were silent past their timeout.
    pub idle_watches: u64,
    pub events: u64,
    pub bookmarks: u64,
    /// Events that were replayed or out of order.
    pub ignored_events: u64,
    /// Objects, in lists and events, that could not be decoded.
    pub decode_failures: u64,
    /// Whether protobuf could not be read, so that JSON is requested: zero or one.
    pub json_fallbacks: u64,
    /// Failed lists and watches.
    pub failures: u64,
    pub handler_panics: u64,
    /// Delivered changes, by bucket of [`DELIVERY_BUCKETS`]; the last entry took longer than all bounds.
    pub delivered: [u64; DELIVERY_BUCKETS.len() + 1],
    /// The total time of all deliveries.
    pub delivery_time: Duration,
    pub objects: usize,
    /// Objects whose latest version cannot be decoded.
    pub undecodable: usize,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn delivered(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        Self::add(&self.delivered[DELIVERY_BUCKETS.partition_point(|bound| *bound < seconds)], 1);
        Self::add(&self.delivery_nanos, took.as_nanos() as u64);
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
            json_fallbacks: get(&self.json_fallbacks),
            failures: get(&self.failures),
            handler_panics: get(&self.handler_panics),
            delivered: self.delivered.each_ref().map(get),
            delivery_time: Duration::from_nanos(get(&self.delivery_nanos)),
            objects,
            undecodable,
        }
    }
}
