//! Whether the time of a Job is up. Pure.

use std::time::Duration;

use flyball_api::time::SignedDuration;
use flyball_api::{Job, Timestamp};

/// What to do about a Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: it does not expire.
    Leave,
    /// Nothing, for this long.
    Wait(Duration),
    /// Delete it: its time was up at this moment.
    Delete(Timestamp),
    /// Nothing can be said: it has ended, but at no known time.
    Unknown,
}

/// Whether the Job has ended and is to be deleted some time.
pub fn expires(job: &Job) -> bool {
    job.spec.ttl_seconds_after_finished.is_some() && job.is_finished() && !job.metadata.is_deleting()
}

/// Decides on one Job.
pub fn plan(job: &Job, now: Timestamp) -> Decision {
    let (true, Some(end), Some(ttl)) = (expires(job), job.end(), job.spec.ttl_seconds_after_finished) else {
        return Decision::Leave;
    };
    let Some(ended) = end.last_transition_time else { return Decision::Unknown };
    let expiry = ended.checked_add(SignedDuration::from_secs(ttl.into())).unwrap_or(Timestamp::MAX);
    match Duration::try_from(expiry.duration_since(now)) {
        Ok(left) if !left.is_zero() => Decision::Wait(left),
        _ => Decision::Delete(expiry),
    }
}
