//! Connections: TLS that trusts what the machine trusts, or the authorities in a file.

use std::path::Path;

use bytes::Bytes;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::error::OpenError;

pub(crate) type Connections = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

pub(crate) fn connections(authorities: Option<&Path>) -> Result<Connections, OpenError> {
    flyball_tls::install();
    let mut roots = RootCertStore::empty();
    match authorities {
        // Those that cannot be used are left out.
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
        Some(path) => {
            let unreadable = |source| OpenError::UnreadableAuthorities { path: path.to_owned(), source };
            let pem = std::fs::read(path).map_err(unreadable)?;
            let certificates = CertificateDer::pem_slice_iter(&pem).flatten();
            let (usable, _) = roots.add_parsable_certificates(certificates);
            if usable == 0 {
                return Err(OpenError::NoAuthority { path: path.to_owned() });
            }
        }
    }
    let tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .enable_http2()
        .build();
    Ok(Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector))
}
