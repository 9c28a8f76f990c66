//! What becomes of a request, and for how long its certificate is good. Pure.

use std::time::Duration;

use flyball_api::condition::{Condition, TRUE};
use flyball_api::time::{SignedDuration, truncate};
use flyball_api::{CertificateSigningRequest, Timestamp};

use crate::csr::{FAILED, has_failed, is_approved, is_issued, request};
use crate::rules::Signer;
use crate::x509::{Request, RequestError, Validity};

/// Clocks differ: certificates are good from a little before they were made.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// Certificates for less than this end when it was said; of longer ones the head start is taken off the end.
const SHORT: Duration = Duration::from_secs(8 * 60 * 60);
/// The least that can be asked for.
const LEAST: Duration = Duration::from_secs(10 * 60);

/// What to do with a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    Sign(Box<Request>),
    /// It breaks the signer's rules, as the text says.
    Fail(String),
}

/// What to do with a request to `signer`; none if it is not approved, or done with.
pub fn plan(csr: &CertificateSigningRequest, signer: Signer) -> Result<Option<Action>, RequestError> {
    if is_issued(csr) || !is_approved(csr) || has_failed(csr) {
        return Ok(None);
    }
    let request = request(csr)?;
    Ok(Some(match signer.objection(&request, &csr.spec.usages) {
        Some(objection) => Action::Fail(objection),
        None => Action::Sign(Box::new(request)),
    }))
}

/// The request with the condition that it failed.
pub fn failed(csr: &CertificateSigningRequest, why: &str, now: Timestamp) -> CertificateSigningRequest {
    let mut failed = csr.clone();
    failed.status.conditions.push(Condition {
        type_: FAILED.into(),
        status: TRUE.into(),
        reason: "SignerValidationFailure".into(),
        message: why.into(),
        last_update_time: Some(now),
        ..Condition::default()
    });
    failed
}

/// For how long a certificate is good: what was asked for within bounds, else as long as the signer gives.
pub fn lifetime(asked_seconds: Option<i32>, longest: Duration) -> Duration {
    let Some(seconds) = asked_seconds else { return longest };
    let asked = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    // Upstream's order: a signer that gives less than the least gives that.
    if asked > longest { longest } else { asked.max(LEAST) }
}

/// Why an authority cannot sign any more.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the authority's own certificate expired at {0}")]
pub struct Expired(Timestamp);

/// From when to when a certificate is good that is made `now` by an authority that ends at `end`.
pub fn validity(now: Timestamp, lifetime: Duration, end: Timestamp) -> Result<Validity, Expired> {
    if now >= end {
        return Err(Expired(end));
    }
    let lifetime = SignedDuration::try_from(lifetime).unwrap_or(SignedDuration::MAX);
    let is_short = lifetime < SignedDuration::try_from(SHORT).unwrap_or(SignedDuration::MAX);
    let after = if is_short { lifetime } else { lifetime.saturating_sub(BACKDATE) };
    let not_before = now.checked_sub(BACKDATE).unwrap_or(Timestamp::MIN);
    let not_after = now.checked_add(after).unwrap_or(Timestamp::MAX).min(end);
    Ok(Validity { not_before: truncate(not_before), not_after: truncate(not_after) })
}
