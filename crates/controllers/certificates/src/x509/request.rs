//! Parses and verifies PKCS #10 certificate requests.

use std::net::IpAddr;

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer as _;

use super::{Subject, proof};

/// Why a request cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("it must be a PEM block of type CERTIFICATE REQUEST")]
    Pem,
    #[error("it is not a PKCS #10 certificate request")]
    Malformed,
    #[error("its subject has an attribute that is not text")]
    Subject,
    #[error("its subjectAltName extension is malformed")]
    AlternativeNames,
    /// It was made with another key, or its algorithm is not supported.
    #[error("its signature cannot be verified: {0}")]
    Signature(&'static str),
}

/// The subject alternative names of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AlternativeNames {
    pub dns: Vec<String>,
    pub emails: Vec<String>,
    pub addresses: Vec<IpAddr>,
    pub uris: Vec<String>,
}

impl AlternativeNames {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A request whose signature has been verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub subject: Subject,
    pub names: AlternativeNames,
    /// The key: a SubjectPublicKeyInfo in DER.
    pub public_key: Vec<u8>,
}

impl Request {
    /// Parses the first PEM block.
    pub fn from_pem(pem: &[u8]) -> Result<Self, RequestError> {
        let (_, block) = x509_parser::pem::parse_x509_pem(pem).map_err(|_| RequestError::Pem)?;
        if block.label != "CERTIFICATE REQUEST" {
            return Err(RequestError::Pem);
        }
        let parsed = X509CertificationRequest::from_der(&block.contents);
        let (rest, request) = parsed.map_err(|_| RequestError::Malformed)?;
        if !rest.is_empty() {
            return Err(RequestError::Malformed);
        }
        proof::check(&request).map_err(RequestError::Signature)?;
        let info = &request.certification_request_info;
        let mut names = AlternativeNames::default();
        for extension in request.requested_extensions().into_iter().flatten() {
            match extension {
                ParsedExtension::SubjectAlternativeName(found) => names = read(&found.general_names)?,
                ParsedExtension::ParseError { .. } => return Err(RequestError::Malformed),
                _ => {}
            }
        }
        let subject = Subject::read(&info.subject)?;
        Ok(Self { subject, names, public_key: info.subject_pki.raw.to_vec() })
    }
}

/// Names of other kinds are ignored, as upstream.
fn read(found: &[GeneralName<'_>]) -> Result<AlternativeNames, RequestError> {
    let mut names = AlternativeNames::default();
    for name in found {
        match name {
            GeneralName::DNSName(name) => names.dns.push((*name).to_owned()),
            GeneralName::RFC822Name(name) => names.emails.push((*name).to_owned()),
            GeneralName::URI(uri) => names.uris.push((*uri).to_owned()),
            GeneralName::IPAddress(bytes) => names.addresses.push(address(bytes)?),
            GeneralName::Invalid(..) => return Err(RequestError::AlternativeNames),
            _ => {}
        }
    }
    Ok(names)
}

fn address(bytes: &[u8]) -> Result<IpAddr, RequestError> {
    let four = || <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let sixteen = || <[u8; 16]>::try_from(bytes).map(|bytes| IpAddr::from(bytes).to_canonical());
    four().or_else(|_| sixteen()).map_err(|_| RequestError::AlternativeNames)
}
