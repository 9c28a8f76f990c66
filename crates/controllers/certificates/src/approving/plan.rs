//! Which rights are enough to approve a request, and the approval. Pure.

use flyball_api::condition::{Condition, TRUE};
use flyball_api::{CertificateSigningRequest, Object};
use flyball_runtime::{Chain, Effect, ErrorKinds, Plan, Waiting, Write};
use serde_json::{Value, json};

use crate::csr::{APPROVED, DENIED, has, is_issued, request};
use crate::rules::Signer;
use crate::x509::RequestError;

/// A right by which a request is approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// A node renews its own certificate.
    SelfNodeClient,
    /// A client requests the certificate of any node.
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

/// What the decision depends on.
#[derive(Debug)]
pub struct View<'a> {
    pub csr: &'a CertificateSigningRequest,
    /// The first of [`rights`] that the requester has.
    pub granted: Option<Right>,
}

pub fn plan(view: &View<'_>) -> Plan {
    let View { csr, granted } = *view;
    let (user, key) = (&csr.spec.username, csr.key());
    let tried = match rights(csr) {
        Ok([]) => return Plan::default(),
        Ok(rights) => rights,
        Err(error) => {
            let message = format!("reading certificate request {key}: {}", Chain(&error));
            return Plan::of([Effect::Invalid(message)]);
        }
    };
    if let Some(right) = granted {
        let why = format!("{user} may create {}", right.subresource());
        let approve = Write::replace(&approved(csr, right)).subresource("approval").why(why);
        return Plan::of([approve.ignore(ErrorKinds::NOT_FOUND)]);
    }
    let names: Vec<&str> = tried.iter().map(|right| right.subresource()).collect();
    let refused = format!("{user} may create none of {}", names.join(", "));
    let until = format!("to be approved or denied; {refused}");
    Plan::of([Effect::NotYet(refused)]).waiting_for([Waiting::on::<CertificateSigningRequest>(&key, until)])
}

/// The rights to check, in this order; the first that is granted is enough. Empty for requests that are decided, and for
/// those that this controller does not approve.
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

/// The SubjectAccessReview that shows whether the requester has a right.
pub fn review(csr: &CertificateSigningRequest, right: Right) -> Value {
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

/// The request with the condition `Approved`. The server sets its times.
fn approved(csr: &CertificateSigningRequest, right: Right) -> CertificateSigningRequest {
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
