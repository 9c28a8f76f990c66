//! What a program adds to the manager besides its [`Component`](crate::Component).

use flyball_cache::Informers;
use flyball_client::Identities;
use flyball_runtime::{Extensions, Metrics, Signal};
use flyball_serving::{Listening, ServingError};
use futures::future::BoxFuture;

#[derive(Default)]
pub struct Equipment {
    pub extensions: Extensions,
    /// Called once this process leads; controllers start when it has completed.
    pub begin: Option<Begin>,
    /// Starts another server, which also runs on standbys.
    pub serve: Option<ServeMore>,
}

/// See [`Equipment::serve`].
pub type ServeMore = Box<dyn FnOnce(&Metrics) -> Result<Option<Listening>, ServingError> + Send>;

/// See [`Equipment::begin`].
pub type Begin = Box<dyn FnOnce(Surroundings) -> BoxFuture<'static, ()> + Send>;

/// What [`Equipment::begin`] gets when this process begins to lead.
#[derive(Clone)]
pub struct Surroundings {
    /// The caches that controllers share.
    pub informers: Informers,
    /// The API server, under the manager's identity or a service account's.
    pub identities: Identities,
    /// Set at shutdown.
    pub shutdown: Signal,
}
