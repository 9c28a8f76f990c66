//! Who may approve and sign which certificate requests, and which requests are refused.

use base64::Engine as _;
use serde_json::Value;

use super::{Request, enabled, forbid};
use crate::authz::Attributes;
use crate::error::ApiError;
use crate::life::Ops;
use crate::registry::Subresource;

const GROUP: &str = "certificates.k8s.io";
const PLURAL: &str = "certificatesigningrequests";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

pub(super) fn check(
    ops: &Ops<'_>,
    request: &Request<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    if request.group != GROUP || request.plural != PLURAL {
        return Ok(());
    }
    let signer = old.unwrap_or(object)["spec"]["signerName"].as_str().unwrap_or_default();
    let approves = request.updates(GROUP, PLURAL, Some(Subresource::Approval));
    if approves && enabled(ops, "CertificateApproval") && !may(ops, "approve", signer) {
        let why = format!("user not permitted to approve requests with signerName {signer:?}");
        return Err(forbid(ops, object, &why));
    }
    if request.updates(GROUP, PLURAL, Some(Subresource::Status)) && enabled(ops, "CertificateSigning") {
        let said = |csr: &Value| (csr["status"]["certificate"].clone(), conditions(csr));
        let signs = old.is_some_and(|old| said(old) != said(object));
        if signs && !may(ops, "sign", signer) {
            let why = format!("user not permitted to sign requests with signerName {signer:?}");
            return Err(forbid(ops, object, &why));
        }
    }
    if request.creates(GROUP, PLURAL)
        && signer == CLIENT_SIGNER
        && enabled(ops, "CertificateSubjectRestriction")
    {
        let masters = organizations(object).iter().any(|group| group == "system:masters");
        if masters {
            let why = format!("use of {CLIENT_SIGNER} signer with system:masters group is not allowed");
            return Err(forbid(ops, object, &why));
        }
    }
    Ok(())
}

/// No list is the same as an empty one.
fn conditions(csr: &Value) -> Vec<Value> {
    csr["status"]["conditions"].as_array().cloned().unwrap_or_default()
}

/// Permissions on a signer are given by its full name, or by its domain and `*`.
fn may(ops: &Ops<'_>, verb: &str, signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    let wildcard = format!("{domain}/*");
    [signer, wildcard.as_str()].iter().any(|name| {
        let wanted = Attributes { verb, group: GROUP, resource: "signers", name, ..Attributes::default() };
        ops.server.authz.allows(ops.server, ops.user, &wanted)
    })
}

fn organizations(csr: &Value) -> Vec<String> {
    let encoded = csr["spec"]["request"].as_str().unwrap_or_default();
    let Ok(pem) = base64::engine::general_purpose::STANDARD.decode(encoded) else { return Vec::new() };
    let Ok((_, pem)) = x509_parser::pem::parse_x509_pem(&pem) else { return Vec::new() };
    use x509_parser::prelude::FromDer as _;
    let parsed = x509_parser::certification_request::X509CertificationRequest::from_der(&pem.contents);
    let Ok((_, request)) = parsed else { return Vec::new() };
    let subject = &request.certification_request_info.subject;
    subject.iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned).collect()
}
