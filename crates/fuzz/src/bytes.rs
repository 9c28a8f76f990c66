//! Formats that programs write.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flyball_apiserver::fuzzing as server;
use flyball_certificates::x509::{Authority, Request};
use flyball_client::{Encoding, fuzzing as client};
use flyball_keys::PrivateKey;

/// However a watch is cut into chunks, the same events come out.
pub(crate) fn watch(data: &[u8]) {
    let Some((size, body)) = data.split_first() else { return };
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        let whole = client::watch_events(body, encoding, body.len().max(1));
        let chunks = client::watch_events(body, encoding, usize::from(*size).max(1));
        assert_eq!(whole, chunks, "cut into chunks of {size}");
    }
}

/// Protobuf as clients of the embedded API server send it.
pub(crate) fn protobuf(data: &[u8]) {
    let _ = server::decode_protobuf(data);
}

/// JSON as clients of the embedded API server send it is what another parser reads, if no key is there twice.
pub(crate) fn json(data: &[u8]) {
    let plain = serde_json::from_slice::<serde_json::Value>(data).ok();
    match server::decode_json(data) {
        Some((value, repeated)) => {
            assert_eq!(Some(value), plain, "repeated: {repeated:?}");
        }
        None => assert!(plain.is_none(), "it is refused, and is {plain:?}"),
    }
}

/// What the kernel answers over netlink.
pub(crate) fn netlink(data: &[u8]) {
    flyball_linux::fuzzing::netlink(data);
}

/// A token that this server did not sign opens nothing.
pub(crate) fn jwt(data: &[u8]) {
    if let Ok(token) = std::str::from_utf8(data) {
        assert!(!server::opens(token), "{token:?} was never signed");
    }
}

/// Certificates, requests and keys: as PEM, and as DER that is wrapped here so that mutations reach it.
pub(crate) fn x509(data: &[u8]) {
    read(data);
    for label in ["CERTIFICATE REQUEST", "CERTIFICATE", "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"] {
        let body = STANDARD.encode(data);
        read(format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n").as_bytes());
    }
}

fn read(pem: &[u8]) {
    if let Ok(request) = Request::from_pem(pem) {
        assert!(!request.subject.der().is_empty(), "a subject is at least an empty sequence");
    }
    let _ = Authority::from_pem(pem, pem);
    let _ = PrivateKey::from_pem(pem);
}
