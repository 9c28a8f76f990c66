//! Which requests are deleted: those that were answered long ago, or never. Pure.

use std::sync::Arc;

use flyball_api::time::SignedDuration;
use flyball_api::{Object, ResourcePoolStatusRequest, Timestamp, condition};
use flyball_runtime::{Effect, ErrorKinds, Plan, Write, exactly};

use super::plan::{COMPLETE, FAILED};

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// The deletions of a round.
pub(super) fn plan(requests: &[Arc<ResourcePoolStatusRequest>], now: Timestamp) -> Plan {
    let delete = |request: &Arc<ResourcePoolStatusRequest>| {
        let why = reason_to_delete(request, now)?;
        let delete =
            Write::delete_with::<ResourcePoolStatusRequest>(request.key(), exactly(&request.metadata));
        Some(delete.ignore_only(ErrorKinds::NOT_FOUND).why(why))
    };
    Plan::of([Effect::each(requests.iter().filter_map(delete))])
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
