//! The keyed work queue: which object is looked at next, when, and by whom.
//!
//! A queue holds *keys*, never objects, and each key at most once, so its size is bounded by the number
//! of objects there are, however fast they change. Its promises:
//!
//! - a key is never handed to two workers at once; what arrives meanwhile makes it come back afterwards;
//! - keys come in order of arrival within a [`Priority`]; a fresh change waits behind no more than one in eight keys
//!   of an initial list or a resync, which in turn are never starved;
//! - a key can be asked for later, and a failing key waits longer each time ([`Backoff`]), all failing keys
//!   together being held to an overall rate.
//!
//! All waiting is on tokio's clock, so a test with paused time runs a thousand-second backoff in no time.

mod backoff;
mod observe;
mod state;

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

pub use backoff::Backoff;
pub use observe::{Observer, Unobserved};
use state::State;

/// What a queue can hold: cheap to clone, hashable, and ordered so that ties break the same way each time.
pub trait QueueKey: Clone + Eq + Hash + Ord + Send + 'static {}
impl<K: Clone + Eq + Hash + Ord + Send + 'static> QueueKey for K {}

/// How urgent a key is. The order of the variants is the order of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Somebody changed something just now, or a retry or delay has run out.
    Change,
    /// The key is only being looked at again: initial list, resync.
    Sweep,
}

/// A shared queue of keys. Cheap to clone; all clones are the same queue.
pub struct Queue<K: QueueKey> {
    shared: Arc<Shared<K>>,
}

struct Shared<K: QueueKey> {
    state: Mutex<State<K>>,
    arrived: Notify,
    observer: Box<dyn Observer>,
}

impl<K: QueueKey> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K: QueueKey> Default for Queue<K> {
    fn default() -> Self {
        Self::new(Backoff::default(), Unobserved)
    }
}

impl<K: QueueKey> Queue<K> {
    /// An empty queue that spaces failing keys by `backoff` and tells `observer` what happens in it.
    pub fn new(backoff: Backoff, observer: impl Observer) -> Self {
        let state = Mutex::new(State::new(backoff));
        Self { shared: Arc::new(Shared { state, arrived: Notify::new(), observer: Box::new(observer) }) }
    }

    /// Asks for `key` to be processed as soon as its turn comes.
    pub fn add(&self, key: K, priority: Priority) {
        let ready = self.shared.state.lock().add(key, priority, Instant::now());
        if ready {
            self.shared.observer.added();
            self.shared.arrived.notify_one();
        }
    }

    /// Asks for `key` to be processed after `delay`. An earlier request for the same key stands.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key, Priority::Change);
        }
        // A delay beyond the clock's range means never, and a key that never comes needs no entry.
        let Some(due) = Instant::now().checked_add(delay) else { return };
        if self.shared.state.lock().add_at(key, due) {
            self.shared.arrived.notify_one();
        }
    }

    /// Asks for `key` again after it failed: each failure in a row makes it wait longer.
    pub fn retry(&self, key: K) {
        let delay = self.shared.state.lock().next_delay(&key, Instant::now());
        self.shared.observer.retried();
        self.add_after(key, delay);
    }

    /// Ends the row of failures of `key`.
    pub fn forget(&self, key: &K) {
        self.shared.state.lock().forget(key);
    }

    /// How often `key` has failed in a row.
    pub fn failures(&self, key: &K) -> u32 {
        self.shared.state.lock().failures(key)
    }

    /// Waits for the next key. `None` once the queue is closed: keys still in it are left to whoever
    /// starts next, which finds them by listing.
    pub async fn next(&self) -> Option<Taken<K>> {
        loop {
            let arrived = self.shared.arrived.notified();
            let now = Instant::now();
            let (taken, alarm, more) = {
                let mut state = self.shared.state.lock();
                if state.is_closed() {
                    return None;
                }
                for _ in 0..state.promote_due(now) {
                    self.shared.observer.added();
                }
                let taken = state.take(now);
                let alarm = if taken.is_none() { state.set_alarm() } else { None };
                (taken, alarm, state.depth() > 0 || state.needs_alarm())
            };
            if let Some((key, waited)) = taken {
                self.shared.observer.taken(waited);
                if more {
                    self.shared.arrived.notify_one();
                }
                return Some(Taken { key: Some(key), queue: self.clone(), since: now });
            }
            match alarm {
                Some(due) => {
                    let mut alarm = Alarm { queue: self, due: Some(due) };
                    tokio::select! {
                        () = arrived => {}
                        () = tokio::time::sleep_until(due) => {}
                    }
                    alarm.end();
                }
                None => arrived.await,
            }
        }
    }

    /// Ends the queue: waiting and future calls of [`Queue::next`] return `None`.
    pub fn close(&self) {
        self.shared.state.lock().close();
        // Each woken worker passes the word on through `next`, which looks at the state first.
        self.shared.arrived.notify_waiters();
        self.shared.arrived.notify_one();
    }

    /// Keys that are ready and wait for a worker.
    pub fn depth(&self) -> usize {
        self.shared.state.lock().depth()
    }

    /// Keys that wait for their time.
    pub fn delayed(&self) -> usize {
        self.shared.state.lock().delayed()
    }

    /// Whether nothing is ready and nobody works: what is left, if anything, waits for its time.
    pub fn is_idle(&self) -> bool {
        let state = self.shared.state.lock();
        state.depth() == 0 && state.running().0 == 0
    }

    /// Time spent so far by the workers on keys in hand: of all together, and of the slowest.
    pub fn work_in_hand(&self) -> (Duration, Duration) {
        let now = Instant::now();
        let state = self.shared.state.lock();
        let ages = || state.started().map(|since| now.duration_since(since));
        (ages().sum(), ages().max().unwrap_or_default())
    }

    fn done(&self, key: K, since: Instant) {
        let now = Instant::now();
        let again = self.shared.state.lock().done(&key, now);
        self.shared.observer.finished(now.duration_since(since));
        if again {
            self.shared.observer.added();
            self.shared.arrived.notify_one();
        }
    }
}

/// The one timer of all idle workers of a queue. A worker that goes away while it has it wakes another, which sets it
/// anew.
struct Alarm<'a, K: QueueKey> {
    queue: &'a Queue<K>,
    due: Option<Instant>,
}

impl<K: QueueKey> Alarm<'_, K> {
    /// Gives it up; true if somebody has to set it anew.
    fn end(&mut self) -> bool {
        let mut state = self.queue.shared.state.lock();
        self.due.take().is_some_and(|due| state.clear_alarm(due))
    }
}

impl<K: QueueKey> Drop for Alarm<'_, K> {
    fn drop(&mut self) {
        if self.end() {
            self.queue.shared.arrived.notify_one();
        }
    }
}

/// A key in a worker's hands. Dropping it, also by a panic, gives the key back.
pub struct Taken<K: QueueKey> {
    key: Option<K>,
    queue: Queue<K>,
    since: Instant,
}

impl<K: QueueKey> std::ops::Deref for Taken<K> {
    type Target = K;

    fn deref(&self) -> &K {
        self.key.as_ref().expect("the key is only taken out by drop")
    }
}

impl<K: QueueKey> Drop for Taken<K> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.queue.done(key, self.since);
        }
    }
}

#[cfg(test)]
mod tests;
