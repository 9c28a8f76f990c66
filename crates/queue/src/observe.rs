//! Hooks for metrics of a queue.

use std::time::Duration;

/// Called outside the queue's lock; must be fast.
pub trait Observer: Send + Sync + 'static {
    fn added(&self) {}
    /// A worker took a key that had waited this long.
    fn taken(&self, _waited: Duration) {}
    /// A worker finished a key after this long.
    fn finished(&self, _worked: Duration) {}
    /// A key was added again after a failure.
    fn retried(&self) {}
}

/// For queues without metrics.
#[derive(Debug, Clone, Copy)]
pub struct Unobserved;

impl Observer for Unobserved {}
