//! Steps that ask for certificates.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::Method;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use serde_json::json;

use super::arguments::Csr;
use crate::api::{Call, Content};
use crate::golden::StepError;
use crate::golden::backend::Backend;
use crate::golden::run::Run;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// Makes a key and a request for it, under the name of another user if the step says so.
pub(super) async fn request<B: Backend>(run: &Run<'_, B>, step: &Csr) -> Result<(), StepError> {
    let pem = pem(step).map_err(|problem| StepError::failed(format!("{}: {problem}", step.name)))?;
    let mut object = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": step.name},
        "spec": {"request": BASE64.encode(pem), "signerName": step.signer, "usages": step.usages},
    });
    if let Some(seconds) = step.expiration_seconds {
        object["spec"]["expirationSeconds"] = seconds.into();
    }
    let mut call = Call::new(Method::POST, REQUESTS).body(&object, Content::Json);
    if let Some(user) = &step.user {
        // Impersonation: the server stamps the user and the groups into the request.
        call = call.header("impersonate-user", user);
        for group in step.groups.iter().map(String::as_str).chain(["system:authenticated"]) {
            call = call.header("impersonate-group", group);
        }
    }
    run.api.send(call).await?;
    Ok(())
}

fn pem(step: &Csr) -> Result<String, String> {
    let mut params = CertificateParams::default();
    params.distinguished_name = subject(&step.subject)?;
    for extension in &step.ext {
        let names = extension
            .strip_prefix("subjectAltName=")
            .ok_or_else(|| format!("of extensions only subjectAltName is known, not {extension:?}"))?;
        for name in names.split(',') {
            params.subject_alt_names.push(alternative_name(name.trim())?);
        }
    }
    let key = KeyPair::generate().map_err(|e| e.to_string())?;
    params.serialize_request(&key).and_then(|request| request.pem()).map_err(|e| e.to_string())
}

/// `/O=system:nodes/CN=system:node:n1`.
fn subject(text: &str) -> Result<DistinguishedName, String> {
    let mut subject = DistinguishedName::new();
    for part in text.split('/').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("O", value)) => subject.push(DnType::OrganizationName, value),
            Some(("CN", value)) => subject.push(DnType::CommonName, value),
            Some(("OU", value)) => subject.push(DnType::OrganizationalUnitName, value),
            _ => return Err(format!("{part:?} in the subject is none of O=, OU=, CN=")),
        }
    }
    Ok(subject)
}

fn alternative_name(text: &str) -> Result<SanType, String> {
    let ia5 = |value: &str| value.try_into().map_err(|_| format!("{value:?} is not plain ASCII"));
    match text.split_once(':') {
        Some(("DNS", name)) => Ok(SanType::DnsName(ia5(name)?)),
        Some(("email", name)) => Ok(SanType::Rfc822Name(ia5(name)?)),
        Some(("URI", name)) => Ok(SanType::URI(ia5(name)?)),
        Some(("IP", ip)) => {
            let ip: IpAddr = ip.parse().map_err(|_| format!("{ip:?} is not an address"))?;
            Ok(SanType::IpAddress(ip))
        }
        _ => Err(format!("{text:?} is none of DNS:, IP:, URI:, email:")),
    }
}
