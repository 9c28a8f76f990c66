//! What the two controllers share that delete requests in rounds: a snapshot of all requests, and the plan for it.

use std::sync::Arc;

use flyball_api::{Object, Timestamp};
use flyball_cache::Informer;
use flyball_runtime::{Context, Periodic, Plan, SyncError};

/// What a round decides on.
pub struct View<T> {
    /// All requests, by key.
    pub requests: Vec<Arc<T>>,
    pub now: Timestamp,
}

/// A kind of request that is deleted some time after it has ended.
pub(crate) trait Request: Object {
    /// Deletes the requests that are no longer needed.
    fn clean(view: &View<Self>) -> Plan;
}

/// The shell.
pub(crate) struct Cleaner<T> {
    pub(crate) cx: Arc<Context>,
    pub(crate) requests: Arc<Informer<T>>,
}

impl<T: Request> Periodic for Cleaner<T> {
    type Memory = ();
    type Observations = View<T>;
    type Tag = ();

    async fn observe(&self, (): &()) -> Result<View<T>, SyncError> {
        let mut requests = self.requests.store().list();
        requests.sort_unstable_by_key(|request| request.key());
        Ok(View { requests, now: self.cx.clock.now() })
    }

    fn round((): (), view: &View<T>) -> ((), Plan) {
        ((), T::clean(view))
    }
}
