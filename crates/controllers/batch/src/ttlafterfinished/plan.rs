//! When a finished Job is deleted. Pure.

use std::time::Duration;

use flyball_api::time::SignedDuration;
use flyball_api::{Job, Timestamp};
use flyball_client::Propagation;
use flyball_runtime::{Effect, ErrorKinds, Plan, Waiting, Write, exactly};
use smol_str::format_smolstr;

/// Whether the Job has finished and has a TTL.
pub fn expires(job: &Job) -> bool {
    job.spec.ttl_seconds_after_finished.is_some() && job.is_finished() && !job.metadata.is_deleting()
}

/// Deletes a Job whose TTL has expired. The deletion is tagged with the time of the expiry.
pub fn plan(job: &Job, now: Timestamp) -> Plan<Timestamp> {
    let (true, Some(end), Some(ttl)) = (expires(job), job.end(), job.spec.ttl_seconds_after_finished) else {
        return Plan::default();
    };
    let Some(finished) = end.last_transition_time else {
        let message = format!("Job {} has ended, but does not say when", job.metadata.key());
        return Plan::of([Effect::Invalid(message)]);
    };
    let expiry = finished.checked_add(SignedDuration::from_secs(ttl.into())).unwrap_or(Timestamp::MAX);
    match Duration::try_from(expiry.duration_since(now)) {
        Ok(left) if !left.is_zero() => {
            Plan::after(left).waiting_for([Waiting::until(expiry, "when it is deleted")])
        }
        _ => Plan::of([deletion(job)
            .tag(expiry)
            .why(format_smolstr!("it has finished, and its TTL expired at {expiry}"))]),
    }
}

/// The deletion of a Job, after that of its pods.
fn deletion(job: &Job) -> Write {
    let options = exactly(&job.metadata).propagation(Propagation::Foreground);
    Write::delete_with::<Job>(job.metadata.key(), options).ignore_only(ErrorKinds::NOT_FOUND)
}
