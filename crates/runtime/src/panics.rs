//! Panics of a controller: where they happened, and how they reach metrics and the supervisor.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use flyball_latest as latest;

use crate::metrics::Metrics;

/// Where a controller panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// While it was set up.
    Start,
    /// Before its workers started.
    Preparation,
    /// While it handled a change: its own state may no longer agree with the cache.
    Trigger,
    /// In a loop of its own, which has ended.
    Loop,
    /// While it synced one key: only that key is delayed.
    Sync,
    /// In a task on which nothing depends, which has ended.
    Aside,
}

impl Place {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Preparation => "preparation",
            Self::Trigger => "trigger",
            Self::Loop => "loop",
            Self::Sync => "sync",
            Self::Aside => "aside",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reports panics outside of a sync to the supervisor, which sets up the controller again.
pub(crate) struct Panics {
    controller: &'static str,
    metrics: Metrics,
    first: latest::Sender<Option<Place>>,
}

impl Panics {
    pub(crate) fn new(controller: &'static str, metrics: Metrics) -> Self {
        Self { controller, metrics, first: latest::Sender::new(None) }
    }

    /// Counts and logs a panic at `place`, in `what`.
    pub(crate) fn record(&self, place: Place, what: &dyn fmt::Display, panic: &(dyn Any + Send)) {
        let (controller, panic) = (self.controller, panic_text(panic));
        tracing::error!(controller, %place, %what, panic, "a controller panicked");
        self.metrics.controller_panicked(controller, place);
    }

    /// The same, and notifies the supervisor, which sets up the controller again.
    pub(crate) fn report(&self, place: Place, what: &dyn fmt::Display, panic: &(dyn Any + Send)) {
        self.record(place, what, panic);
        self.first.send_modify(|first| *first = first.or(Some(place)));
    }

    /// Waits for a panic; returns the place of the first.
    pub(crate) async fn reported(&self) -> Place {
        let mut first = self.first.subscribe();
        match first.wait_for(Option::is_some).await {
            Ok(Some(place)) => place,
            // Cannot happen: `self` holds the sender.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Forgets the panics of the last run.
    pub(crate) fn reset(&self) {
        self.first.send_replace(None);
    }
}

pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a message")
}

type Hook = dyn Fn(&'static str, Place, &str) + Send + Sync;

/// Injects panics in tests: called wherever a controller could panic, with the controller, the place, and the key or the name
/// of the loop. It is one of a manager's [`Extensions`](crate::Extensions).
#[derive(Clone)]
pub struct PanicInjector(Arc<Hook>);

impl PanicInjector {
    pub fn new(hook: impl Fn(&'static str, Place, &str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }

    pub(crate) fn inject_panic(&self, controller: &'static str, place: Place, what: &dyn fmt::Display) {
        (self.0)(controller, place, &what.to_string());
    }
}
