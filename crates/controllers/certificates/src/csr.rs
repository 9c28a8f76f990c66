//! The state of a CertificateSigningRequest, and the PKCS #10 request inside it.

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

pub fn is_issued(csr: &CertificateSigningRequest) -> bool {
    !csr.status.certificate.is_empty()
}

/// Whether it has a condition of this type. The status of the condition does not matter.
pub fn has(csr: &CertificateSigningRequest, type_: &str) -> bool {
    csr.status.conditions.iter().any(|condition| condition.type_ == type_)
}

/// Whether it is approved and not denied.
pub fn is_approved(csr: &CertificateSigningRequest) -> bool {
    has(csr, APPROVED) && !has(csr, DENIED)
}

/// Whether its signer refused it. Objects of older releases may lack the status of the condition.
pub fn has_failed(csr: &CertificateSigningRequest) -> bool {
    let is_failure = |c: &Condition| c.type_ == FAILED && (c.status.is_empty() || c.status == TRUE);
    csr.status.conditions.iter().any(is_failure)
}

/// The request that the requester signed.
pub fn request(csr: &CertificateSigningRequest) -> Result<Request, RequestError> {
    let pem = BASE64.decode(csr.spec.request.as_bytes()).map_err(|_| RequestError::Pem)?;
    Request::from_pem(&pem)
}

#[cfg(test)]
pub(crate) mod testing {
    use rcgen::{CertificateParams, DnType, KeyPair};
    use serde_json::json;

    use super::*;

    pub(crate) const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
    pub(crate) const USAGES: &[&str] = &["digital signature", "client auth"];

    pub(crate) fn request_pem(organization: &str, name: &str) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::OrganizationName, organization);
        params.distinguished_name.push(DnType::CommonName, name);
        params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
    }

    /// The request `x` of `system:node:n` with conditions of these types.
    pub(crate) fn csr(
        pem: &str,
        signer: &str,
        usages: &[&str],
        conditions: &[&str],
    ) -> CertificateSigningRequest {
        let conditions: Vec<_> =
            conditions.iter().map(|kind| json!({"type": kind, "status": "True"})).collect();
        serde_json::from_value(json!({
            "metadata": {"name": "x"},
            "spec": {"request": BASE64.encode(pem), "signerName": signer, "usages": usages, "username": "system:node:n"},
            "status": {"conditions": conditions},
        }))
        .unwrap()
    }
}
