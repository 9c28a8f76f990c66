//! What the page reads: the caches of a manager, its controllers, its decisions, and its API server for explanations.

use std::sync::Arc;
use std::time::Duration;

use flyball_cache::Informers;
use flyball_client::Client;
use flyball_runtime::decisions::DecisionLog;
use flyball_runtime::{Clock, Health, Insight};

use crate::acts::Acts;

#[derive(Clone)]
pub struct Sources {
    /// The program, as the page names it.
    pub component: &'static str,
    pub clock: Clock,
    /// The caches of the controllers. No further one is started for the page.
    pub informers: Informers,
    pub insight: Insight,
    pub health: Health,
    pub decisions: DecisionLog,
    /// For explanations. It needs a rate limit of its own, so that a viewer does not delay a controller.
    pub client: Client,
    /// Whether this process leads; `None` without leader election.
    pub leads: Arc<dyn Fn() -> Option<bool> + Send + Sync>,
    /// The buttons; `None` if there are none.
    pub acts: Option<Arc<dyn Acts>>,
    /// After this time a stream ends and the browser asks for another: its permission is checked again.
    pub stream_lasts: Duration,
}
