//! Which rights would be enough to approve a request, and what approving it looks like. Pure.

use flyball_api::CertificateSigningRequest;
use flyball_api::condition::{Condition, TRUE};
use serde_json::{Value, json};

use crate::csr::{APPROVED, DENIED, has, is_issued, request};
use crate::rules::Signer;
use crate::x509::RequestError;

/// A right by which a request is approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// A node renews its own certificate.
    SelfNodeClient,
    /// Anyone asks for the certificate of a node.
    NodeClient,
}

impl Right {
    /// The subresource that the requester must be allowed to create.
    pub fn subresource(self) -> &'static str {
        match self {
            Self::SelfNodeClient => "selfnodeclient",
            Self::NodeClient => "nodeclient",
        }
    }

    pub fn message(self) -> &'static str {
        match self {
            Self::SelfNodeClient => {
                "Auto approving self kubelet client certificate after SubjectAccessReview."
            }
            Self::NodeClient => "Auto approving kubelet client certificate after SubjectAccessReview.",
        }
    }
}

/// The rights to ask for, in this order; the first that is there is enough. None: the request is not ours to decide.
pub fn rights(csr: &CertificateSigningRequest) -> Result<&'static [Right], RequestError> {
    let is_decided = is_issued(csr) || has(csr, APPROVED) || has(csr, DENIED);
    if is_decided || Signer::of(csr) != Some(Signer::KubeletClient) {
        return Ok(&[]);
    }
    let request = request(csr)?;
    if Signer::KubeletClient.objection(&request, &csr.spec.usages).is_some() {
        return Ok(&[]);
    }
    let is_self = csr.spec.username == request.subject.common_name;
    Ok(if is_self { &[Right::SelfNodeClient, Right::NodeClient] } else { &[Right::NodeClient] })
}

/// The question whether the requester has a right.
pub fn question(csr: &CertificateSigningRequest, right: Right) -> Value {
    let spec = &csr.spec;
    json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": spec.username,
            "uid": spec.uid,
            "groups": spec.groups,
            "extra": spec.extra,
            "resourceAttributes": {
                "group": "certificates.k8s.io",
                "version": "*",
                "resource": "certificatesigningrequests",
                "subresource": right.subresource(),
                "verb": "create",
            },
        },
    })
}

/// The request, approved. The server fills in the times.
pub fn approved(csr: &CertificateSigningRequest, right: Right) -> CertificateSigningRequest {
    let mut approved = csr.clone();
    approved.status.conditions.push(Condition {
        type_: APPROVED.into(),
        status: TRUE.into(),
        reason: "AutoApproved".into(),
        message: right.message().into(),
        ..Condition::default()
    });
    approved
}
