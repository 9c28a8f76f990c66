//! Whether a request has had its time. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flyball_api::time::SignedDuration;
use flyball_api::{CertificateSigningRequest, Timestamp};

use crate::csr::{APPROVED, DENIED, FAILED, is_issued};

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Why a request can go; none if it stays.
pub fn reason_to_delete(csr: &CertificateSigningRequest, now: Timestamp) -> Option<&'static str> {
    let older = |then: Option<Timestamp>, age| then.is_some_and(|then| now.duration_since(then) > age);
    let said = |type_: &str, age| {
        let mut conditions = csr.status.conditions.iter();
        conditions.any(|condition| condition.type_ == type_ && older(condition.last_update_time, age))
    };
    let is_issued = is_issued(csr);
    let is_approved = csr.status.conditions.iter().any(|condition| condition.type_ == APPROVED);
    if is_issued && said(APPROVED, HOUR) {
        return Some("it was issued more than an hour ago");
    }
    if said(DENIED, HOUR) {
        return Some("it was denied more than an hour ago");
    }
    if said(FAILED, HOUR) {
        return Some("it failed more than an hour ago");
    }
    if csr.status.conditions.is_empty() && older(csr.metadata.creation_timestamp, DAY) {
        return Some("nobody has decided on it for more than a day");
    }
    if is_issued && is_approved && end_of_certificate(csr).is_some_and(|end| now > end) {
        return Some("its certificate has expired");
    }
    if !is_issued && said(APPROVED, DAY) {
        return Some("it was approved more than a day ago, and nobody signs it");
    }
    None
}

/// When the issued certificate ends; none if it cannot be read.
fn end_of_certificate(csr: &CertificateSigningRequest) -> Option<Timestamp> {
    let pem = BASE64.decode(csr.status.certificate.as_bytes()).ok()?;
    let (_, block) = x509_parser::pem::parse_x509_pem(&pem).ok()?;
    let certificate = block.parse_x509().ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}
