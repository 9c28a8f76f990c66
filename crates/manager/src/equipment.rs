//! What a program adds to the manager besides its [`Component`](crate::Component).

use flyball_cache::Informers;
use flyball_client::{Fence, Identities};
use flyball_runtime::events::{Recorder, Unwritten};
use flyball_runtime::{Clock, Extensions, Health, Metrics, Signal, SignalSender};
use flyball_serving::{Listening, ServingError};
use futures::future::BoxFuture;

#[derive(Default)]
pub struct Equipment {
    pub extensions: Extensions,
    /// Called once this process leads; controllers start when it has completed.
    pub begin: Option<Begin>,
    /// Called when this process stops leading or exits, if [`begin`](Self::begin) was called. It may run until another process
    /// may lead, or until the end of `--shutdown-timeout`; then the process exits in any case.
    pub end: Option<End>,
    /// Starts another server, which also runs on standbys.
    pub serve: Option<ServeMore>,
}

/// See [`Equipment::serve`].
pub type ServeMore = Box<dyn FnOnce(&Metrics) -> Result<Option<Listening>, ServingError> + Send>;

/// See [`Equipment::begin`].
pub type Begin = Box<dyn FnOnce(LeaderContext) -> BoxFuture<'static, ()> + Send>;

/// See [`Equipment::end`].
pub type End = Box<dyn FnOnce(Ending) -> BoxFuture<'static, ()> + Send>;

/// Why this process stops to lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Another process may lead soon. Controllers may not have finished.
    LeaseLost,
    /// The process received a signal. Controllers have finished or were cancelled.
    Shutdown,
}

/// What the process has before it is connected to the API server.
pub struct Foundation {
    pub clock: Clock,
    pub metrics: Metrics,
    pub health: Health,
    /// Records events under the name of the manager.
    pub events: Recorder,
    /// Set at shutdown.
    pub shutdown: Signal,
    /// The events so far.
    pub(crate) unwritten: Unwritten,
}

impl Foundation {
    /// For a component of this name, with the sender that shuts it down.
    pub fn new(component: &'static str, metrics: Metrics) -> (SignalSender, Self) {
        let clock = Clock::system();
        let (sender, shutdown) = Signal::new();
        let (events, unwritten) = Recorder::unconnected(component, clock);
        (sender, Self { clock, metrics, health: Health::default(), events, shutdown, unwritten })
    }
}

/// What [`Equipment::begin`] gets when this process begins to lead.
#[derive(Clone)]
pub struct LeaderContext {
    /// The caches that controllers share.
    pub informers: Informers,
    /// The API server, under the manager's identity or a service account's.
    pub identities: Identities,
    /// Whether this process may still act as the leader, even if it was stopped meanwhile. Requests to the API server pass it in
    /// any case; what is done elsewhere should, too.
    pub fence: Fence,
    /// Set at shutdown.
    pub shutdown: Signal,
}
