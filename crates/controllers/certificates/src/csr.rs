//! What a CertificateSigningRequest has come to, and the PKCS #10 request inside it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flyball_api::CertificateSigningRequest;
use flyball_api::condition::{Condition, TRUE};

use crate::x509::{Request, RequestError};

/// The condition of a request that may be signed.
pub const APPROVED: &str = "Approved";
/// The condition of a request that will never be signed.
pub const DENIED: &str = "Denied";
/// The condition of a request that its signer refused.
pub const FAILED: &str = "Failed";

/// Whether the certificate is there.
pub fn is_issued(csr: &CertificateSigningRequest) -> bool {
    !csr.status.certificate.is_empty()
}

/// Whether it has a condition of this type, whatever its status: for decisions that is enough.
pub fn has(csr: &CertificateSigningRequest, type_: &str) -> bool {
    csr.status.conditions.iter().any(|condition| condition.type_ == type_)
}

/// Whether it has been approved and not denied.
pub fn is_approved(csr: &CertificateSigningRequest) -> bool {
    has(csr, APPROVED) && !has(csr, DENIED)
}

/// Whether its signer refused it. Objects of old may lack the status.
pub fn has_failed(csr: &CertificateSigningRequest) -> bool {
    let is_failure = |c: &Condition| c.type_ == FAILED && (c.status.is_empty() || c.status == TRUE);
    csr.status.conditions.iter().any(is_failure)
}

/// The request that the requester signed.
pub fn request(csr: &CertificateSigningRequest) -> Result<Request, RequestError> {
    let pem = BASE64.decode(csr.spec.request.as_bytes()).map_err(|_| RequestError::Pem)?;
    Request::from_pem(&pem)
}
