//! Certificate signing requests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::error::X509Error;
use x509_parser::pem::Pem;

use super::{At, names};
use crate::invalid::Cause;
use crate::kinds::json::Json;

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// The conditions with a decision, whose status must be `True`.
const DECISIONS: [&str; 3] = ["Approved", "Denied", "Failed"];

pub(in crate::kinds) fn request(object: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    let text = spec.text("request");
    if let Some(detail) = pem_fault(text) {
        faults.push(Cause::invalid(spec.path("request"), text, detail));
    }
    if spec.value.items("usages").is_empty() {
        faults.push(Cause::required(spec.path("usages"), ""));
    }
    for (at, usage) in spec.items("usages").enumerate() {
        if !USAGES.contains(&usage.text("")) {
            faults.push(Cause::not_supported(usage.path.clone(), usage.text(""), &USAGES));
        }
        if spec.value.items("usages")[..at].contains(usage.value) {
            faults.push(Cause::duplicate(usage.path.clone(), usage.text("")));
        }
    }
    let signer = spec.text("signerName");
    let path = spec.path("signerName");
    match signer.split_once('/') {
        _ if signer.is_empty() => faults.push(Cause::required(path, "")),
        _ if signer == "kubernetes.io/legacy-unknown" => {
            let detail = "the legacy signerName is not allowed via this API version";
            faults.push(Cause::invalid(path, signer, detail));
        }
        None => {
            let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            faults.push(Cause::invalid(path, signer, detail));
        }
        Some((domain, _)) => {
            faults.extend(names::subdomain(domain).iter().map(|d| Cause::invalid(path.clone(), signer, d)));
        }
    }
    if let Some(seconds) = spec.int("expirationSeconds").filter(|seconds| *seconds < 600) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        faults.push(Cause::invalid(spec.path("expirationSeconds"), seconds, detail));
    }
    faults
}

fn pem_fault(text: &str) -> Option<&'static str> {
    let bytes = STANDARD.decode(text).ok()?;
    let (_, block) = match x509_parser::pem::parse_x509_pem(&bytes) {
        Ok(found) if found.1.label == "CERTIFICATE REQUEST" => found,
        _ => return Some("PEM block type must be CERTIFICATE REQUEST"),
    };
    use x509_parser::prelude::FromDer as _;
    let parsed = X509CertificationRequest::from_der(&block.contents);
    let Ok((_, request)) = parsed else {
        return Some("asn1: structure error: malformed certificate request");
    };
    // Nothing can be checked for an unknown algorithm.
    match request.verify_signature() {
        Err(X509Error::SignatureVerificationError) => Some(signature_fault(&request)),
        _ => None,
    }
}

/// The error of Go's library for a wrong signature.
fn signature_fault(request: &X509CertificationRequest<'_>) -> &'static str {
    let algorithm = request.signature_algorithm.algorithm.to_id_string();
    match algorithm.as_str() {
        "1.3.101.112" => "x509: Ed25519 verification failure",
        ecdsa if ecdsa.starts_with("1.2.840.10045.") => "x509: ECDSA verification failure",
        _ => "crypto/rsa: verification error",
    }
}

/// Decisions are made at `/approval` and certificates issued at `/status`; neither can be revoked.
pub(in crate::kinds) fn status(new: &Value, old: &Value, approval: bool) -> Vec<Cause> {
    let mut faults = conditions(new);
    let certificate = new.text("status.certificate");
    let earlier = old.text("status.certificate");
    if certificate != earlier
        && let Some(detail) = certificate_fault(certificate)
    {
        faults.push(Cause::invalid("status.certificate", "<certificate data>", &detail));
    }
    let count = |csr: &Value, kind: &str| {
        csr.items("status.conditions").iter().filter(|condition| condition.text("type") == kind).count()
    };
    for kind in DECISIONS {
        let decides = kind != "Failed";
        let (had, has) = (count(old, kind), count(new, kind));
        let verb = match has.cmp(&had) {
            std::cmp::Ordering::Greater if decides && !approval => "add",
            std::cmp::Ordering::Less => "remove",
            _ => continue,
        };
        let detail = format!("updates may not {verb} a condition of type {kind:?}");
        faults.push(Cause::forbidden("status.conditions", &detail));
    }
    if certificate != earlier && !earlier.is_empty() {
        let detail = "updates may not modify existing certificate content";
        faults.push(Cause::forbidden("status.certificate", detail));
    }
    faults
}

fn conditions(csr: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for condition in At::root(csr).child("status").items("conditions") {
        let (kind, status) = (condition.text("type"), condition.text("status"));
        let allowed: &[&str] =
            if DECISIONS.contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        if kind.is_empty() {
            faults.push(Cause::required(condition.path("type"), ""));
        }
        if status.is_empty() {
            faults.push(Cause::required(condition.path("status"), ""));
        } else if !allowed.contains(&status) {
            faults.push(Cause::not_supported(condition.path("status"), status, allowed));
        }
        let rival = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !rival.is_empty() && seen.contains(&rival) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            faults.push(Cause::invalid("status.conditions", kind, detail));
        }
        if seen.contains(&kind) {
            faults.push(Cause::duplicate(condition.path("type"), kind));
        }
        seen.push(kind);
    }
    faults
}

fn certificate_fault(text: &str) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    let bytes = STANDARD.decode(text).ok()?;
    let mut blocks = 0;
    for block in Pem::iter_from_buffer(&bytes) {
        let Ok(block) = block else { break };
        if block.label != "CERTIFICATE" {
            return Some(format!("only CERTIFICATE PEM blocks are allowed, found {:?}", block.label));
        }
        if block.parse_x509().is_err() {
            return Some("x509: malformed certificate".to_owned());
        }
        blocks += 1;
    }
    (blocks == 0).then(|| "must contain at least one CERTIFICATE PEM block".to_owned())
}
