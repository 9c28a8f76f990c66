//! How an informer fares.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// An informer's state at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Whether a complete list has ever been taken over.
    pub synced: bool,
    /// Whether the informer has been stopped; the store keeps what it had.
    pub stopped: bool,
    /// Set while the informer cannot reach its data.
    pub failing: Option<Failing>,
}

/// A spell of failures that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failing {
    /// How long ago it began.
    pub since: Duration,
    /// How many failures it has had.
    pub failures: u64,
    /// The latest failure with its causes.
    pub last_error: Arc<str>,
}

impl Health {
    /// Whether the store is complete and follows the server, as far as the informer can tell.
    pub fn is_healthy(&self) -> bool {
        self.synced && !self.stopped && self.failing.is_none()
    }
}

/// The running record behind [`Health`].
#[derive(Default)]
pub(crate) struct Record {
    spell: Mutex<Option<Spell>>,
}

struct Spell {
    began: Instant,
    failures: u64,
    last_error: Arc<str>,
}

impl Record {
    pub(crate) fn failed(&self, error: &str) {
        let mut spell = self.spell.lock();
        let spell =
            spell.get_or_insert_with(|| Spell { began: Instant::now(), failures: 0, last_error: "".into() });
        spell.failures += 1;
        spell.last_error = error.into();
    }

    /// Ends the spell and says how long it lasted, if there was one.
    pub(crate) fn recovered(&self) -> Option<Duration> {
        self.spell.lock().take().map(|spell| spell.began.elapsed())
    }

    pub(crate) fn failing(&self) -> Option<Failing> {
        self.spell.lock().as_ref().map(|spell| Failing {
            since: spell.began.elapsed(),
            failures: spell.failures,
            last_error: spell.last_error.clone(),
        })
    }
}
