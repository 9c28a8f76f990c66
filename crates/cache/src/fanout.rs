//! Telling subscribers: each hears every change once, in order, whenever it joined.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flyball_api::Object;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use tracing::error;

use crate::change::{Change, Origin};
use crate::course::Course;
use crate::metrics::Counters;
use crate::store::Store;

/// A subscriber's function. It maps a change to queue keys and does nothing slow: the informer waits for it.
pub type Handler<T> = Box<dyn Fn(&Change<'_, T>) + Send + Sync>;

struct Subscriber<T> {
    handler: Handler<T>,
    active: AtomicBool,
}

/// The subscribers of one informer.
pub(crate) struct Fanout<T> {
    /// Held while a change goes into the store and to all subscribers. Whoever joins holds it too: so each change
    /// is either among the objects that the newcomer is shown, or delivered to it afterwards.
    subscribers: Mutex<Vec<Arc<Subscriber<T>>>>,
    course: Arc<Course>,
}

/// Keeps a handler subscribed; dropping it ends the subscription.
///
/// A call that is already under way on another thread when it is dropped still finishes.
#[must_use = "dropping a subscription ends it"]
pub struct Subscription {
    /// Dropped for what its own `Drop` does.
    _end: Box<dyn Send + Sync>,
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
        // If the list is taken, perhaps by this very thread inside a handler, the next delivery clears up.
        if let Some(mut subscribers) = self.fanout.subscribers.try_lock() {
            subscribers.retain(|other| !Arc::ptr_eq(other, &self.subscriber));
        }
    }
}

/// The right to change the store and tell about it; nobody joins meanwhile.
pub(crate) struct Delivery<'a, T> {
    subscribers: MutexGuard<'a, Vec<Arc<Subscriber<T>>>>,
    course: &'a Course,
}

impl<T: Object> Fanout<T> {
    pub(crate) fn new(course: Arc<Course>) -> Self {
        Self { subscribers: Mutex::default(), course }
    }

    /// Shows the newcomer what is in the store, then lets it hear what changes.
    pub(crate) fn subscribe(self: &Arc<Self>, store: &Store<T>, handler: Handler<T>) -> Subscription {
        let subscriber = Arc::new(Subscriber { handler, active: AtomicBool::new(true) });
        let mut subscribers = self.subscribers.lock();
        for object in store.list() {
            subscriber.call(&Change::appeared(&object, Origin::Initial), &self.course);
        }
        subscribers.push(subscriber.clone());
        drop(subscribers);
        Subscription { _end: Box::new(End { fanout: self.clone(), subscriber }) }
    }

    pub(crate) fn begin(&self) -> Delivery<'_, T> {
        let mut subscribers = self.subscribers.lock();
        if subscribers.iter().any(|subscriber| !subscriber.active.load(Ordering::Acquire)) {
            subscribers.retain(|subscriber| subscriber.active.load(Ordering::Acquire));
        }
        Delivery { subscribers, course: &self.course }
    }
}

impl<T: Object> Delivery<'_, T> {
    pub(crate) fn tell(&self, change: &Change<'_, T>) {
        let started = Instant::now();
        for subscriber in self.subscribers.iter() {
            subscriber.call(change, self.course);
        }
        self.course.counters.told(started.elapsed());
    }
}

impl<T: Object> Subscriber<T> {
    /// A handler that panics loses this one change; neither the informer nor other subscribers suffer from it.
    fn call(&self, change: &Change<'_, T>, course: &Course) {
        if !self.active.load(Ordering::Acquire) {
            return;
        }
        if catch_unwind(AssertUnwindSafe(|| (self.handler)(change))).is_err() {
            Counters::add(&course.counters.handler_panics, 1);
            error!(key = %change.key(), origin = ?change.origin, "a subscriber panicked on a change");
        }
    }
}
