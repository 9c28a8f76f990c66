//! Delivery to subscribers: each receives every change once, in order, whenever it joined.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flyball_api::Object;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use tracing::error;

use crate::change::{Change, Origin};
use crate::metrics::Counters;
use crate::state::InformerState;
use crate::store::Store;

/// A subscriber's function. It maps a change to queue keys and must be fast: the informer waits for it.
pub type Handler<T> = Box<dyn Fn(&Change<'_, T>) + Send + Sync>;

struct Subscriber<T> {
    handler: Handler<T>,
    active: AtomicBool,
}

pub(crate) struct Fanout<T> {
    /// Locked while a change is applied to the store and delivered, and while a subscriber joins. So a new subscriber
    /// receives each change either with the initial objects or afterwards, not twice and not never.
    subscribers: Mutex<Vec<Arc<Subscriber<T>>>>,
    state: Arc<InformerState>,
}

/// Keeps a handler subscribed; dropping it ends the subscription.
///
/// A call that is running on another thread at that time still finishes.
#[must_use = "dropping a subscription ends it"]
pub struct Subscription {
    /// Dropped for what its own `Drop` does.
    _end: Box<dyn Send + Sync>,
}

impl Subscription {
    /// A subscription that ends when `end` is dropped.
    pub(crate) fn ending_with(end: impl Send + Sync + 'static) -> Self {
        Self { _end: Box::new(end) }
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Subscription")
    }
}

struct End<T> {
    fanout: Arc<Fanout<T>>,
    subscriber: Arc<Subscriber<T>>,
}

impl<T> Drop for End<T> {
    fn drop(&mut self) {
        self.subscriber.active.store(false, Ordering::Release);
        // If the list is locked, perhaps by this thread inside a handler, the next delivery removes the subscriber.
        if let Some(mut subscribers) = self.fanout.subscribers.try_lock() {
            subscribers.retain(|other| !Arc::ptr_eq(other, &self.subscriber));
        }
    }
}

/// Held while the store is changed and the changes are delivered; no subscriber joins meanwhile.
pub(crate) struct Delivery<'a, T> {
    subscribers: MutexGuard<'a, Vec<Arc<Subscriber<T>>>>,
    state: &'a InformerState,
}

impl<T: Object> Fanout<T> {
    pub(crate) fn new(state: Arc<InformerState>) -> Self {
        Self { subscribers: Mutex::default(), state }
    }

    /// Delivers the objects in the store to the new subscriber, then every change.
    pub(crate) fn subscribe(self: &Arc<Self>, store: &Store<T>, handler: Handler<T>) -> Subscription {
        let subscriber = Arc::new(Subscriber { handler, active: AtomicBool::new(true) });
        let mut subscribers = self.subscribers.lock();
        for object in store.list() {
            subscriber.call(&Change::appeared(&object, Origin::Initial), &self.state);
        }
        subscribers.push(subscriber.clone());
        drop(subscribers);
        Subscription::ending_with(End { fanout: self.clone(), subscriber })
    }

    pub(crate) fn begin(&self) -> Delivery<'_, T> {
        let mut subscribers = self.subscribers.lock();
        if subscribers.iter().any(|subscriber| !subscriber.active.load(Ordering::Acquire)) {
            subscribers.retain(|subscriber| subscriber.active.load(Ordering::Acquire));
        }
        Delivery { subscribers, state: &self.state }
    }
}

impl<T: Object> Delivery<'_, T> {
    pub(crate) fn deliver(&self, change: &Change<'_, T>) {
        let started = Instant::now();
        for subscriber in self.subscribers.iter() {
            subscriber.call(change, self.state);
        }
        self.state.counters.delivered(started.elapsed());
    }
}

impl<T: Object> Subscriber<T> {
    /// A handler that panics loses this one change. The informer and other subscribers are not affected.
    fn call(&self, change: &Change<'_, T>, state: &InformerState) {
        if !self.active.load(Ordering::Acquire) {
            return;
        }
        if catch_unwind(AssertUnwindSafe(|| (self.handler)(change))).is_err() {
            Counters::add(&state.counters.handler_panics, 1);
            error!(key = %change.key(), origin = ?change.origin, "a subscriber panicked on a change");
        }
    }
}
