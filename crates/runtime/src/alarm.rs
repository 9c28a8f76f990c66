//! Panics of a controller: where they happened, who counts them, and how its supervisor hears of those that cost more
//! than one key.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use crate::metrics::Metrics;

/// Where in a controller something panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// While it was set up.
    Start,
    /// In what it does before its workers start.
    Preparation,
    /// While it heard of a change: what it has noted may no longer agree with the cache.
    Trigger,
    /// In a loop of its own, which is no more.
    Loop,
    /// While it looked at one key: this costs that key a pause, and nothing else.
    Sync,
}

impl Place {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Preparation => "preparation",
            Self::Trigger => "trigger",
            Self::Loop => "loop",
            Self::Sync => "sync",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Rung by whatever of a controller panicked outside of a sync: it has to be set up anew.
pub(crate) struct Alarm {
    controller: &'static str,
    metrics: Metrics,
    rung: watch::Sender<Option<Place>>,
}

impl Alarm {
    pub(crate) fn new(controller: &'static str, metrics: Metrics) -> Self {
        Self { controller, metrics, rung: watch::Sender::new(None) }
    }

    /// Counts and logs a panic at `place`, in `what`, and calls the supervisor.
    pub(crate) fn ring(&self, place: Place, what: &dyn fmt::Display, panic: &(dyn Any + Send)) {
        let (controller, panic) = (self.controller, panic_text(panic));
        tracing::error!(controller, %place, %what, panic, "a controller panicked; it will be set up anew");
        self.metrics.controller_panicked(controller, place);
        self.rung.send_modify(|rung| *rung = rung.or(Some(place)));
    }

    /// Waits until it rings, for the first of the places where it did.
    pub(crate) async fn rings(&self) -> Place {
        let mut rung = self.rung.subscribe();
        match rung.wait_for(Option::is_some).await.map(|place| *place) {
            Ok(Some(place)) => place,
            // The sender is ours, so it is there.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Forgets what rang: it was about what is no more.
    pub(crate) fn reset(&self) {
        self.rung.send_replace(None);
    }
}

pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without words")
}

type Hook = dyn Fn(&'static str, Place, &str) + Send + Sync;

/// For tests of what happens then: called with a controller, a place and what is looked at there (a key, the name of a
/// loop) wherever that controller could panic. It may. It is one of a manager's [`Extensions`](crate::Extensions).
#[derive(Clone)]
pub struct Sabotage(Arc<Hook>);

impl Sabotage {
    /// Calls `hook`.
    pub fn new(hook: impl Fn(&'static str, Place, &str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }

    /// The moment at which `controller` could panic.
    pub(crate) fn tempt(&self, controller: &'static str, place: Place, what: &dyn fmt::Display) {
        (self.0)(controller, place, &what.to_string());
    }
}
