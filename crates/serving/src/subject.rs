//! The user of a client certificate, if a trusted CA has signed it.

use std::{collections::BTreeMap, sync::Arc};

use rustls::{
    RootCertStore,
    pki_types::UnixTime,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use x509_parser::{der_parser::oid::Oid, oid_registry, x509::AttributeTypeAndValue};

use crate::{Peer, User, authn::Rejected, certs};

const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// The attribute of a subject that holds a user's UID, 1.3.6.1.4.1.57683.2.
const UID: &[u64] = &[1, 3, 6, 1, 4, 1, 57683, 2];

/// A CA for client certificates.
pub(super) type Authority = Arc<dyn ClientCertVerifier>;

pub(super) fn authority(roots: RootCertStore) -> Result<Authority, String> {
    let provider = Arc::new(flyball_tls::provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| format!("the certificate authorities cannot be used: {error}"))
}

/// The subject of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subject {
    /// Common name; may be empty.
    pub(super) name: String,
    groups: Vec<String>,
    uids: Vec<String>,
    digest: Vec<u8>,
}

/// The subject of the peer's certificate, if the CA has signed it. `None` without a certificate.
pub(super) fn verified(authority: &Authority, peer: &Peer) -> Result<Option<Subject>, Rejected> {
    let [leaf, intermediates @ ..] = &peer.certificates[..] else { return Ok(None) };
    authority
        .verify_client_cert(leaf, intermediates, UnixTime::now())
        .map_err(|error| Rejected(format!("the client certificate cannot be verified: {error}")))?;
    let (_, parsed) = x509_parser::parse_x509_certificate(leaf)
        .map_err(|error| Rejected(format!("the client certificate cannot be read: {error}")))?;
    let digest = certs::sha256(leaf).unwrap_or_default();
    let mut subject = Subject { name: String::new(), groups: vec![], uids: vec![], digest };
    let uid = Oid::from(UID).map_err(|_| Rejected("the UID attribute has no name".to_owned()))?;
    for attribute in parsed.subject().iter_attributes() {
        let kind = attribute.attr_type();
        // If there are several common names, the last one is used, as in Go.
        if *kind == oid_registry::OID_X509_COMMON_NAME {
            subject.name = text(attribute)?;
        } else if *kind == oid_registry::OID_X509_ORGANIZATION_NAME {
            subject.groups.push(text(attribute)?);
        } else if *kind == uid {
            subject.uids.push(text(attribute)?);
        }
    }
    Ok(Some(subject))
}

/// Fails for a name in an unknown encoding. If it were skipped, the user might be another than the one that was approved.
fn text(attribute: &AttributeTypeAndValue<'_>) -> Result<String, Rejected> {
    let read = attribute.as_str().map(str::to_owned);
    read.map_err(|error| Rejected(format!("the client certificate's subject cannot be read: {error}")))
}

impl Subject {
    /// The user; `None` without a common name. `reads_uid` is the feature gate AllowParsingUserUIDFromCertAuth.
    pub(super) fn user(self, reads_uid: bool) -> Result<Option<User>, Rejected> {
        if self.name.is_empty() {
            return Ok(None);
        }
        let uid = match &self.uids[..] {
            _ if !reads_uid => String::new(),
            [] => String::new(),
            [uid] if !uid.is_empty() => uid.clone(),
            _ => return Err(Rejected("the client certificate's subject has no single UID".to_owned())),
        };
        let digest: String = self.digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let extra = BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={digest}")])]);
        Ok(Some(User { name: self.name, uid, groups: self.groups, extra }))
    }
}
