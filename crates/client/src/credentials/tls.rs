//! The TLS settings of a connection: whom we trust, and which certificate we show.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flyball_tls::Unverified;
use parking_lot::Mutex;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::time::Instant;

use crate::config::Trust;
use crate::transport::BoxError;

/// A file of certificate authorities is read again after this long.
const MAX_AGE: Duration = Duration::from_secs(60);

/// A client certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) certificate: Vec<u8>,
    pub(super) key: Vec<u8>,
    /// Where the key comes from, for errors.
    pub(super) origin: String,
}

/// A client certificate that TLS cannot use.
#[derive(Debug, thiserror::Error)]
#[error("the client certificate with {key} cannot be used; the key must be {}", flyball_tls::KEYS)]
struct UnusableKey {
    key: String,
    #[source]
    source: BoxError,
}

pub(super) fn client_config(trust: &Trust, identity: Option<&Identity>) -> Result<ClientConfig, BoxError> {
    flyball_tls::install();
    let builder = ClientConfig::builder();
    let builder = match trust {
        Trust::System => builder.with_root_certificates(system_roots()),
        Trust::Roots(roots) => builder.with_root_certificates(store(roots.clone())?),
        Trust::File(path, roots) => {
            let verifier = RotatingRoots::new(path.clone(), roots.clone())?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        }
        Trust::Anyone => builder.dangerous().with_custom_certificate_verifier(Unverified::verifier()),
    };
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let about_key = |source| UnusableKey { key: identity.origin.clone(), source };
            let chain = CertificateDer::pem_slice_iter(&identity.certificate).collect::<Result<Vec<_>, _>>();
            let key = PrivateKeyDer::from_pem_slice(&identity.key).map_err(|e| about_key(e.into()))?;
            builder.with_client_auth_cert(chain?, key).map_err(|e| about_key(e.into()))?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn store(roots: Vec<CertificateDer<'static>>) -> Result<RootCertStore, BoxError> {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root).map_err(|e| format!("a certificate authority cannot be used: {e}"))?;
    }
    Ok(store)
}

/// Certificates that cannot be used are left out, as Go does it. Without any, no server is trusted.
fn system_roots() -> RootCertStore {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    store
}

/// Trusts what a file holds, and reads it again from time to time: certificate authorities are rotated. If it cannot be read,
/// its last content is used.
#[derive(Debug)]
struct RotatingRoots {
    path: PathBuf,
    read: Mutex<(Arc<WebPkiServerVerifier>, Instant)>,
}

impl RotatingRoots {
    fn new(path: PathBuf, roots: Vec<CertificateDer<'static>>) -> Result<Self, BoxError> {
        Ok(Self { path, read: Mutex::new((Self::verifier(roots)?, Instant::now())) })
    }

    fn verifier(roots: Vec<CertificateDer<'static>>) -> Result<Arc<WebPkiServerVerifier>, BoxError> {
        Ok(WebPkiServerVerifier::builder(Arc::new(store(roots)?)).build()?)
    }

    fn load(path: &Path) -> Result<Arc<WebPkiServerVerifier>, BoxError> {
        let pem = std::fs::read(path)?;
        Self::verifier(CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>()?)
    }

    fn current(&self) -> Arc<WebPkiServerVerifier> {
        let mut read = self.read.lock();
        if read.1.elapsed() >= MAX_AGE {
            match Self::load(&self.path) {
                Ok(verifier) => read.0 = verifier,
                Err(error) => tracing::warn!(
                    file = %self.path.display(),
                    error = &*error as &dyn std::error::Error,
                    "the certificate authorities cannot be read; using the last ones"
                ),
            }
            read.1 = Instant::now();
        }
        read.0.clone()
    }
}

impl ServerCertVerifier for RotatingRoots {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.current().verify_server_cert(certificate, intermediates, name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.current().verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.current().verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.current().supported_verify_schemes()
    }
}
