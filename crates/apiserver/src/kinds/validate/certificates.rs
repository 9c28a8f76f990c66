//! Certificate signing requests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

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
    match x509_parser::certification_request::X509CertificationRequest::from_der(&block.contents) {
        Ok(_) => None,
        Err(_) => Some("asn1: structure error: malformed certificate request"),
    }
}
