//! Deletes requests that were answered long ago, or never, in periodic rounds.

use std::sync::Arc;

use flyball_api::condition;
use flyball_api::time::SignedDuration;
use flyball_api::{Object, ResourcePoolStatusRequest, Timestamp};
use flyball_cache::Informer;
use flyball_runtime::{Context, Effect, ErrorKinds, Periodic, Plan, SyncError, Write, exactly};

use super::plan::{COMPLETE, FAILED};

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const DAY: SignedDuration = SignedDuration::from_hours(24);

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
        let delete = |request: &Arc<ResourcePoolStatusRequest>| {
            let why = reason_to_delete(request, *now)?;
            let options = exactly(&request.metadata);
            let delete = Write::delete_with::<ResourcePoolStatusRequest>(request.key(), options);
            Some(delete.ignore_only(ErrorKinds::NOT_FOUND).why(why))
        };
        ((), Plan::of([Effect::each(requests.iter().filter_map(delete))]))
    }
}

/// Why a request is to be deleted; `None` if it is kept.
fn reason_to_delete(request: &ResourcePoolStatusRequest, now: Timestamp) -> Option<&'static str> {
    let is_older = |time: Option<Timestamp>, age| time.is_some_and(|time| now.duration_since(time) > age);
    let created = request.metadata.creation_timestamp;
    let Some(status) = &request.status else {
        return is_older(created, DAY).then_some("it was created more than a day ago and has no status");
    };
    let answered =
        [COMPLETE, FAILED].into_iter().find_map(|type_| condition::find(&status.conditions, type_));
    let since = answered.map_or(created, |answered| answered.last_transition_time);
    is_older(since, HOUR).then_some("it was answered more than an hour ago")
}
