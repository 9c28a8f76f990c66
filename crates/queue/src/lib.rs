//! The work queue.
//!
//! A queue holds *keys*, not objects, and each key at most once, so its size is bounded by the number of objects, however
//! often they change. It guarantees:
//!
//! - a key is processed by one worker at a time; if it is added meanwhile, it is processed again afterwards;
//! - keys of one [`Priority`] are processed in order; keys of an initial list or a resync get every eighth turn while there
//!   are changes, so that neither waits long for the other;
//! - a key can be added with a delay; a failing key is delayed longer each time ([`Backoff`]), within an overall rate limit.
//!
//! Delays use tokio's clock, so that a test with paused time runs a thousand-second backoff at once.

mod backoff;
mod look;
mod observe;
mod state;

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

pub use backoff::Backoff;
pub use look::Look;
pub use observe::{Observer, Unobserved};
use state::State;

/// Cheap to clone, hashable, and ordered, so that ties are broken deterministically.
pub trait QueueKey: Clone + Eq + Hash + Ord + Send + 'static {}
impl<K: Clone + Eq + Hash + Ord + Send + 'static> QueueKey for K {}

/// The order of the variants is the order of processing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// A change, or a retry or delay that is due.
    Change,
    /// An initial list or a resync.
    Sweep,
}

/// Cheap to clone; all clones are the same queue.
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
    pub fn new(backoff: Backoff, observer: impl Observer) -> Self {
        let state = Mutex::new(State::new(backoff));
        Self { shared: Arc::new(Shared { state, arrived: Notify::new(), observer: Box::new(observer) }) }
    }

    pub fn add(&self, key: K, priority: Priority) {
        let ready = self.shared.state.lock().add(key, priority, Instant::now());
        if ready {
            self.shared.observer.added();
            self.shared.arrived.notify_one();
        }
    }

    /// Adds the keys that are being processed once more: they come back when that has ended.
    pub fn add_running(&self, priority: Priority) {
        let (mut state, now) = (self.shared.state.lock(), Instant::now());
        for key in state.running_keys() {
            state.add(key, priority, now);
        }
    }

    /// Adds `key` after `delay`. If the key is already due earlier, that stays.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key, Priority::Change);
        }
        // A delay beyond the clock's range means never.
        let Some(due) = Instant::now().checked_add(delay) else { return };
        if self.shared.state.lock().add_at(key, due) {
            self.shared.arrived.notify_one();
        }
    }

    /// Adds `key` again after a failure, with a delay that grows with the number of failures in a row.
    pub fn retry(&self, key: K) {
        let delay = self.shared.state.lock().next_delay(&key, Instant::now());
        self.shared.observer.retried();
        self.add_after(key, delay);
    }

    /// Resets the number of failures of `key`.
    pub fn forget(&self, key: &K) {
        self.shared.state.lock().forget(key);
    }

    /// How often `key` has failed in a row.
    pub fn failures(&self, key: &K) -> u32 {
        self.shared.state.lock().failures(key)
    }

    /// Waits for the next key. `None` once the queue is closed; the keys that remain are found by the initial list of the next
    /// run.
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
                        biased;
                        () = arrived => {}
                        () = tokio::time::sleep_until(due) => {}
                    }
                    alarm.end();
                }
                None => arrived.await,
            }
        }
    }

    /// Closes the queue: waiting and future calls of [`Queue::next`] return `None`.
    pub fn close(&self) {
        self.shared.state.lock().close();
        // Each woken worker wakes another in `next`.
        self.shared.arrived.notify_waiters();
        self.shared.arrived.notify_one();
    }

    /// Keys that are ready and wait for a worker.
    pub fn depth(&self) -> usize {
        self.shared.state.lock().depth()
    }

    /// Keys with a delay that is not over.
    pub fn delayed(&self) -> usize {
        self.shared.state.lock().delayed()
    }

    /// What it holds, for people. Takes time in proportion to the number of keys.
    pub fn look(&self) -> Look<K> {
        self.shared.state.lock().look(Instant::now())
    }

    /// Whether no key is ready or being processed. There may be delayed keys.
    pub fn is_idle(&self) -> bool {
        let state = self.shared.state.lock();
        state.depth() == 0 && state.running().0 == 0
    }

    /// How long the keys that are being processed have been so far: the sum, and the longest.
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

/// The timer that the idle workers of a queue share. A worker that is cancelled while it holds the timer wakes another,
/// which sets it again.
struct Alarm<'a, K: QueueKey> {
    queue: &'a Queue<K>,
    due: Option<Instant>,
}

impl<K: QueueKey> Alarm<'_, K> {
    /// Releases it; true if another worker has to set it again.
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

/// A key that is being processed. Dropping it, also by a panic, marks it as done.
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
