//! Handshakes in memory, between a client and a server with keys that `ring` does not support.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use rustls::{SupportedProtocolVersion, crypto::ring};

use crate::{has_oversized_key, provider};

macro_rules! data {
    ($name:literal) => {
        include_bytes!(concat!("../../keys/testdata/", $name)).as_slice()
    };
}

type Pair = (&'static [u8], &'static [u8]);
const RSA8192: Pair = (data!("rsa8192.crt"), data!("rsa8192.key"));
const RSA16384: Pair = (data!("rsa16384.crt"), data!("rsa16384.key"));
const P521: Pair = (data!("p521.crt"), data!("p521.key"));

fn certificate(pem: &[u8]) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem).unwrap()
}

fn roots() -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for ca in [data!("ca-rsa16384.crt"), data!("ca-p521.crt")] {
        roots.add(certificate(ca)).unwrap();
    }
    Arc::new(roots)
}

fn key(pair: Pair) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    (vec![certificate(pair.0)], PrivateKeyDer::from_pem_slice(pair.1).unwrap())
}

/// Both sides show a certificate and verify the other's.
fn handshake(client: Pair, server: Pair, version: &'static SupportedProtocolVersion) -> Result<(), String> {
    let ours = Arc::new(provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(), ours.clone()).build().unwrap();
    let (chain, private) = key(server);
    let server = ServerConfig::builder_with_provider(ours.clone())
        .with_protocol_versions(&[version])
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, private)
        .unwrap();
    let (chain, private) = key(client);
    let client = ClientConfig::builder_with_provider(ours)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots())
        .with_client_auth_cert(chain, private)
        .unwrap();
    let mut client =
        ClientConnection::new(Arc::new(client), ServerName::try_from("localhost").unwrap()).unwrap();
    let mut server = ServerConnection::new(Arc::new(server)).unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        let mut bytes = vec![];
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        let mut part = bytes.as_slice();
        while !part.is_empty() {
            server.read_tls(&mut part).unwrap();
            server.process_new_packets().map_err(|error| format!("server: {error}"))?;
        }
        let mut bytes = vec![];
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        let mut part = bytes.as_slice();
        while !part.is_empty() {
            client.read_tls(&mut part).unwrap();
            client.process_new_packets().map_err(|error| format!("client: {error}"))?;
        }
    }
    Ok(())
}

#[test]
fn client_and_server_prove_that_they_have_large_keys() {
    for version in [&TLS13, &TLS12] {
        for (client, server) in [(RSA8192, P521), (P521, RSA8192)] {
            assert_eq!(handshake(client, server, version), Ok(()), "{version:?}");
        }
    }
}

#[test]
fn peers_with_rsa_keys_beyond_gos_limit_are_refused() {
    let refused = |result: Result<(), String>| result.unwrap_err().contains("BadSignature");
    assert!(refused(handshake(P521, RSA16384, &TLS13)));
    let sizes = [RSA8192, RSA16384, P521].map(|(pem, _)| has_oversized_key(&certificate(pem)));
    assert_eq!(sizes, [false, true, false]);
}

#[test]
fn keys_that_ring_knows_are_left_to_it() {
    // Its schemes and ours are equal, so that nothing changes for other keys.
    let (ours, theirs) = (provider(), ring::default_provider());
    let schemes = |all: &rustls::crypto::CryptoProvider| {
        let mut schemes = all.signature_verification_algorithms.supported_schemes();
        schemes.retain(|scheme| *scheme != rustls::SignatureScheme::ECDSA_NISTP521_SHA512);
        schemes
    };
    assert_eq!(schemes(&ours), schemes(&theirs));
    let problem = ours.key_provider.load_private_key(PrivateKeyDer::Pkcs8(vec![0].into())).unwrap_err();
    assert_eq!(problem.to_string(), "unexpected error: failed to parse private key as RSA, ECDSA, or EdDSA");
    let small = PrivateKeyDer::from_pem_slice(data!("rsa-small.key")).unwrap();
    let problem = ours.key_provider.load_private_key(small).unwrap_err();
    assert!(
        problem.to_string().contains("it must be an RSA key of 2048 to 16384 bits: it has 1024 bits"),
        "{problem}"
    );
}
