//! What a queue tells about itself, for metrics; the queue knows no metrics library.

use std::time::Duration;

/// Hears what happens in one queue. Called outside the queue's lock; must be quick.
pub trait Observer: Send + Sync + 'static {
    fn added(&self) {}
    /// A key was handed to a worker after waiting this long.
    fn taken(&self, _waited: Duration) {}
    /// A worker gave a key back after working this long.
    fn finished(&self, _worked: Duration) {}
    /// A key was asked for again after a failure.
    fn retried(&self) {}
}

/// The observer of a queue that nobody measures.
#[derive(Debug, Clone, Copy)]
pub struct Unobserved;

impl Observer for Unobserved {}
