//! The shell of the rounds that delete old requests.

use std::sync::Arc;

use flyball_api::{Object, ResourcePoolStatusRequest, Timestamp};
use flyball_cache::Informer;
use flyball_runtime::{Context, Periodic, Plan, SyncError};

use super::expiry;

pub(super) struct Cleaner {
    pub(super) cx: Arc<Context>,
    pub(super) requests: Arc<Informer<ResourcePoolStatusRequest>>,
}

impl Periodic for Cleaner {
    type Memory = ();
    type Observations = (Vec<Arc<ResourcePoolStatusRequest>>, Timestamp);
    type Tag = ();

    async fn observe(&self, (): &()) -> Result<Self::Observations, SyncError> {
        let mut requests = self.requests.store().list();
        requests.sort_unstable_by_key(|request| request.key());
        Ok((requests, self.cx.clock.now()))
    }

    fn round((): (), (requests, now): &Self::Observations) -> ((), Plan) {
        ((), expiry::plan(requests, *now))
    }
}
