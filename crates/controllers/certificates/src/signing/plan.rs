//! Decides whether a request is signed, and how long the certificate is valid. Pure, except that a signature may be random.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flyball_api::condition::{Condition, TRUE};
use flyball_api::time::{SignedDuration, truncate};
use flyball_api::{CertificateSigningRequest, Object, Timestamp};
use flyball_runtime::{Chain, Effect, ErrorKinds, Plan, Waiting, Write};

use crate::csr::{DENIED, FAILED, has, has_failed, is_approved, is_issued, request};
use crate::rules::Signer;
use crate::x509::{Authority, Request, Serial, Usages, Validity, issue};

/// Clocks differ: certificates are valid from a little before they are issued.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// A lifetime below this is counted from now. A longer one is counted from the backdated start.
const SHORT: Duration = Duration::from_secs(8 * 60 * 60);
/// The shortest lifetime that can be requested.
const MIN_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// What the decision depends on.
pub struct View<'a> {
    pub csr: &'a CertificateSigningRequest,
    pub signer: Signer,
    pub authority: &'a Authority,
    /// The longest lifetime that the signer grants.
    pub max_lifetime: Duration,
    /// A random serial number.
    pub serial: Serial,
    pub now: Timestamp,
}

pub fn plan(view: &View<'_>) -> Plan {
    let View { csr, signer, .. } = *view;
    if is_issued(csr) || has_failed(csr) || has(csr, DENIED) {
        return Plan::default();
    }
    let key = csr.key();
    if !is_approved(csr) {
        return Plan::default()
            .waiting_for([Waiting::on::<CertificateSigningRequest>(&key, "to be approved")]);
    }
    let request = match request(csr) {
        Ok(request) => request,
        Err(error) => {
            let message = format!("reading certificate request {key}: {}", Chain(&error));
            return Plan::of([Effect::Invalid(message)]);
        }
    };
    let (status, why) = match signer.objection(&request, &csr.spec.usages) {
        Some(objection) => {
            (failed(csr, &objection, view.now), format!("{} does not sign it: {objection}", signer.name()))
        }
        None => match sign(view, &request) {
            Ok(pem) => {
                (issued(csr, &pem), format!("it is approved and keeps the rules of {}", signer.name()))
            }
            Err(error) => {
                let message = format!("signing certificate request {key}: {}", Chain(&*error));
                return Plan::of([Effect::Fail(message)]);
            }
        },
    };
    Plan::of([Write::replace(&status).subresource("status").why(why).ignore(ErrorKinds::NOT_FOUND)])
}

/// The certificate in PEM form.
fn sign(view: &View<'_>, request: &Request) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let View { csr, authority, max_lifetime, serial, now, .. } = view;
    let lifetime = lifetime(csr.spec.expiration_seconds, *max_lifetime);
    let validity = validity(*now, lifetime, authority.not_after)?;
    Ok(issue(authority, request, &Usages::parse(&csr.spec.usages)?, validity, serial)?)
}

fn issued(csr: &CertificateSigningRequest, pem: &str) -> CertificateSigningRequest {
    let mut issued = csr.clone();
    issued.status.certificate = BASE64.encode(pem).into();
    issued
}

fn failed(csr: &CertificateSigningRequest, objection: &str, now: Timestamp) -> CertificateSigningRequest {
    let mut failed = csr.clone();
    failed.status.conditions.push(Condition {
        type_: FAILED.into(),
        status: TRUE.into(),
        reason: "SignerValidationFailure".into(),
        message: objection.into(),
        last_update_time: Some(now),
        ..Condition::default()
    });
    failed
}

/// How long a certificate is valid: the requested lifetime within bounds, else the longest.
pub fn lifetime(requested_seconds: Option<i32>, longest: Duration) -> Duration {
    let Some(seconds) = requested_seconds else { return longest };
    let requested = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    // Upstream's order: the shortest lifetime wins over a longest one that is shorter still.
    if requested > longest { longest } else { requested.max(MIN_LIFETIME) }
}

/// Why an authority can no longer sign.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the authority's own certificate expired at {0}")]
pub struct Expired(Timestamp);

/// The validity of a certificate that is issued `now` by an authority whose own certificate expires at `end`.
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
