//! Which certificate requests are deleted in a round. Pure.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flyball_api::time::SignedDuration;
use flyball_api::{CertificateSigningRequest, Object, Timestamp};
use flyball_client::DeleteOptions;
use flyball_runtime::{Effect, ErrorKinds, Plan, Write, exactly};

use crate::cleaner::{Request, View};
use crate::csr::{APPROVED, DENIED, FAILED, has, is_issued};

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const DAY: SignedDuration = SignedDuration::from_hours(24);

impl Request for CertificateSigningRequest {
    fn clean(view: &View<Self>) -> Plan {
        plan(view)
    }
}

pub fn plan(view: &View<CertificateSigningRequest>) -> Plan {
    let deletion = |csr: &Arc<CertificateSigningRequest>| {
        let why = reason_to_delete(csr, view.now)?;
        // Only in the version that was read: a user may be approving it at this time.
        let version = Some(csr.metadata.resource_version);
        let options = DeleteOptions { resource_version: version, ..exactly(&csr.metadata) };
        let delete = Write::delete_with::<CertificateSigningRequest>(csr.key(), options);
        Some(delete.why(why).ignore(ErrorKinds::CONFLICT))
    };
    Plan::of([Effect::each(view.requests.iter().filter_map(deletion))])
}

/// Why a request is deleted; `None` if it stays.
fn reason_to_delete(csr: &CertificateSigningRequest, now: Timestamp) -> Option<&'static str> {
    let is_older = |time: Option<Timestamp>, age| time.is_some_and(|time| now.duration_since(time) > age);
    let has_for = |type_: &str, age| {
        let mut conditions = csr.status.conditions.iter();
        conditions.any(|condition| condition.type_ == type_ && is_older(condition.last_update_time, age))
    };
    let is_issued = is_issued(csr);
    if is_issued && has_for(APPROVED, HOUR) {
        return Some("it was issued more than an hour ago");
    }
    if has_for(DENIED, HOUR) {
        return Some("it was denied more than an hour ago");
    }
    if has_for(FAILED, HOUR) {
        return Some("it failed more than an hour ago");
    }
    if csr.status.conditions.is_empty() && is_older(csr.metadata.creation_timestamp, DAY) {
        return Some("it was created more than a day ago and is still pending");
    }
    if is_issued && has(csr, APPROVED) && end_of_certificate(csr).is_some_and(|end| now > end) {
        return Some("its certificate has expired");
    }
    if !is_issued && has_for(APPROVED, DAY) {
        return Some("it was approved more than a day ago and is still not signed");
    }
    None
}

/// When the issued certificate expires; `None` if it cannot be parsed.
fn end_of_certificate(csr: &CertificateSigningRequest) -> Option<Timestamp> {
    let pem = BASE64.decode(csr.status.certificate.as_bytes()).ok()?;
    let (_, block) = x509_parser::pem::parse_x509_pem(&pem).ok()?;
    let certificate = block.parse_x509().ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}
