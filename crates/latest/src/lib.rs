//! The latest state of something, and those who wait for it to change.
//!
//! As tokio's `watch` channel, except that receivers are woken in the order in which they began to wait. tokio's are woken in a
//! random order, so a simulation would not repeat exactly with the same seed: after a restore of etcd, for one, all informers
//! are woken at once, and whoever is first decides what the others see.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use tokio::sync::Notify;

/// A sender and a receiver of a value that changes.
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

/// Changes the value. Clones change the same.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// Reads the value, and waits for changes. A clone has seen what the original has seen.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

/// All senders are gone: the value will not change any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Notify,
}

struct State<T> {
    value: T,
    /// The number of changes.
    version: u64,
    senders: usize,
}

impl<T> Shared<T> {
    fn borrow(&self) -> MappedMutexGuard<'_, T> {
        MutexGuard::map(self.state.lock(), |state| &mut state.value)
    }

    /// Counts a change, unless `change` returns `false`.
    fn change(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        let mut state = self.state.lock();
        let has_changed = change(&mut state.value);
        state.version += u64::from(has_changed);
        drop(state);
        if has_changed {
            self.changed.notify_waiters();
        }
        has_changed
    }
}

impl<T> Sender<T> {
    pub fn new(value: T) -> Self {
        let state = Mutex::new(State { value, version: 0, senders: 1 });
        Self { shared: Arc::new(Shared { state, changed: Notify::new() }) }
    }

    /// A receiver that has seen the present value.
    pub fn subscribe(&self) -> Receiver<T> {
        let seen = self.shared.state.lock().version;
        Receiver { shared: self.shared.clone(), seen }
    }

    /// The present value, locked: do not keep it.
    pub fn borrow(&self) -> impl Deref<Target = T> {
        self.shared.borrow()
    }

    /// Replaces the value, and returns the former one.
    pub fn send_replace(&self, mut value: T) -> T {
        self.send_modify(|present| std::mem::swap(present, &mut value));
        value
    }

    pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            modify(value);
            true
        });
    }

    /// Wakes receivers only if `modify` returns `true`, which this returns, too.
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        self.shared.change(modify)
    }
}

impl<T> Receiver<T> {
    /// The present value, locked: do not keep it.
    pub fn borrow(&self) -> impl Deref<Target = T> {
        self.shared.borrow()
    }

    /// The same; it counts as seen.
    pub fn borrow_and_update(&mut self) -> impl Deref<Target = T> {
        let state = self.shared.state.lock();
        self.seen = state.version;
        MutexGuard::map(state, |state| &mut state.value)
    }

    /// Counts the present value as seen.
    pub fn mark_unchanged(&mut self) {
        self.seen = self.shared.state.lock().version;
    }

    /// Completes when there is a value that was not seen, and counts it as seen. Losing the future loses no change.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            // Before the look at the value, so that no change is missed in between.
            let changed = self.shared.changed.notified();
            {
                let state = self.shared.state.lock();
                if state.version != self.seen {
                    self.seen = state.version;
                    return Ok(());
                }
                if state.senders == 0 {
                    return Err(Closed);
                }
            }
            changed.await;
        }
    }

    /// Completes with the first value that is meant, the present one included, and counts it as seen.
    pub async fn wait_for(&mut self, is_meant: impl Fn(&T) -> bool) -> Result<T, Closed>
    where
        T: Clone,
    {
        loop {
            {
                let value = self.borrow_and_update();
                if is_meant(&value) {
                    return Ok(value.clone());
                }
            }
            self.changed().await?;
        }
    }
}

impl<T: Default> Default for Sender<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.state.lock().senders += 1;
        Self { shared: self.shared.clone() }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), seen: self.seen }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let is_last = {
            let mut state = self.shared.state.lock();
            state.senders -= 1;
            state.senders == 0
        };
        if is_last {
            self.shared.changed.notify_waiters();
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sender").field(&*self.borrow()).finish()
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Receiver").field(&*self.borrow()).finish()
    }
}

#[cfg(test)]
mod tests;
