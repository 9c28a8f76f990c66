//! Steps that ask for certificates.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::Method;
use rcgen::{KeyPair, PublicKeyData as _, SigningKey as _};
use serde_json::json;
use yasna::models::ObjectIdentifier;
use yasna::{DERWriter, Tag};

use super::arguments::Csr;
use crate::api::{Call, Content};
use crate::golden::StepError;
use crate::golden::backend::Backend;
use crate::golden::run::Run;

/// Object identifiers of X.509: the attributes of names (to which the kind is appended), and others by their names.
const NAME_ATTRIBUTE: [u64; 3] = [2, 5, 4];
const SUBJECT_ALTERNATIVE_NAME: [u64; 4] = [2, 5, 29, 17];
const EXTENSION_REQUEST: [u64; 7] = [1, 2, 840, 113549, 1, 9, 14];
const ECDSA_WITH_SHA256: [u64; 7] = [1, 2, 840, 10045, 4, 3, 2];

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// Creates a key and a CertificateSigningRequest for it, impersonating another user if the step says so.
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

/// A PKCS #10 request, as `openssl req -subj … -addext …` makes it. Built by hand, because rcgen's names cannot have two
/// parts of a kind, such as `/O=a/O=b`.
fn pem(step: &Csr) -> Result<String, String> {
    let mut names = vec![];
    for extension in &step.ext {
        let listed = extension
            .strip_prefix("subjectAltName=")
            .ok_or_else(|| format!("of extensions only subjectAltName is known, not {extension:?}"))?;
        for name in listed.split(',') {
            names.push(alternative_name(name.trim())?);
        }
    }
    let key = KeyPair::generate().map_err(|e| e.to_string())?;
    let (subject, public) = (subject(&step.subject)?, key.subject_public_key_info());
    let asked = yasna::construct_der(|writer| {
        writer.write_sequence(|fields| {
            fields.next().write_u8(0);
            fields.next().write_der(&subject);
            fields.next().write_der(&public);
            fields.next().write_tagged_implicit(Tag::context(0), |attributes| {
                attributes.write_set(|set| {
                    if !names.is_empty() {
                        write_extension_request(set.next(), &names);
                    }
                });
            });
        });
    });
    let signature = key.sign(&asked).map_err(|e| e.to_string())?;
    let whole = yasna::construct_der(|writer| {
        writer.write_sequence(|fields| {
            fields.next().write_der(&asked);
            fields.next().write_sequence(|algorithm| write_oid(algorithm.next(), &ECDSA_WITH_SHA256));
            fields.next().write_bitvec_bytes(&signature, signature.len() * 8);
        });
    });
    let body = BASE64.encode(whole);
    Ok(format!("-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n"))
}

/// `/O=system:nodes/CN=system:node:n1`.
fn subject(text: &str) -> Result<Vec<u8>, String> {
    let (common_name, organization, unit) = (3, 10, 11);
    let mut parts = vec![];
    for part in text.split('/').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("CN", value)) => parts.push((common_name, value)),
            Some(("O", value)) => parts.push((organization, value)),
            Some(("OU", value)) => parts.push((unit, value)),
            _ => return Err(format!("{part:?} in the subject is none of O=, OU=, CN=")),
        }
    }
    Ok(yasna::construct_der(|writer| {
        writer.write_sequence(|names| {
            for (kind, value) in parts {
                names.next().write_set(|set| {
                    set.next().write_sequence(|pair| {
                        write_oid(pair.next(), &[&NAME_ATTRIBUTE[..], &[kind]].concat());
                        pair.next().write_utf8_string(value);
                    });
                });
            }
        });
    }))
}

/// The attribute that asks for alternative names, each a tag and its bytes.
fn write_extension_request(writer: DERWriter<'_>, names: &[(u64, Vec<u8>)]) {
    let list = yasna::construct_der(|writer| {
        writer.write_sequence(|list| {
            for (tag, bytes) in names {
                list.next().write_tagged_implicit(Tag::context(*tag), |name| name.write_bytes(bytes));
            }
        });
    });
    writer.write_sequence(|attribute| {
        write_oid(attribute.next(), &EXTENSION_REQUEST);
        attribute.next().write_set(|values| {
            values.next().write_sequence(|extensions| {
                extensions.next().write_sequence(|extension| {
                    write_oid(extension.next(), &SUBJECT_ALTERNATIVE_NAME);
                    extension.next().write_bytes(&list);
                });
            });
        });
    });
}

fn write_oid(writer: DERWriter<'_>, identifier: &[u64]) {
    writer.write_oid(&ObjectIdentifier::from_slice(identifier));
}

/// A subject alternative name as a tag of RFC 5280's `GeneralName`, and its bytes.
fn alternative_name(text: &str) -> Result<(u64, Vec<u8>), String> {
    match text.split_once(':') {
        Some(("DNS", name)) => Ok((2, name.into())),
        Some(("email", name)) => Ok((1, name.into())),
        Some(("URI", name)) => Ok((6, name.into())),
        Some(("IP", ip)) => {
            let ip: IpAddr = ip.parse().map_err(|_| format!("{ip:?} is not an address"))?;
            Ok((
                7,
                match ip {
                    IpAddr::V4(ip) => ip.octets().to_vec(),
                    IpAddr::V6(ip) => ip.octets().to_vec(),
                },
            ))
        }
        _ => Err(format!("{text:?} is none of DNS:, IP:, URI:, email:")),
    }
}
