//! Against upstream: the requests and certificates in `pem/` were made by kube-controller-manager's own authority, at
//! noon of 10 March 2026, with an RSA key, whose signatures leave nothing to chance.

use std::time::Duration;

use flyball_api::Timestamp;
use rcgen::{CertificateParams, KeyPair, PublicKeyData as _};

use super::*;
use crate::signing::plan::validity;

macro_rules! pem {
    ($name:literal) => {
        include_str!(concat!("pem/", $name, ".pem"))
    };
}

fn authority() -> Authority {
    Authority::from_pem(pem!("ca").as_bytes(), pem!("ca-key").as_bytes()).unwrap()
}

fn serial_of(certificate: &str) -> Serial {
    let (_, block) = x509_parser::pem::parse_x509_pem(certificate.as_bytes()).unwrap();
    let mut serial = Serial::default();
    for (to, from) in serial.iter_mut().rev().zip(block.parse_x509().unwrap().raw_serial().iter().rev()) {
        *to = *from;
    }
    serial
}

#[test]
fn certificates_are_byte_for_byte_what_upstream_signs() {
    const HOUR: u64 = 3600;
    const EVERYTHING: &[&str] = &[
        "signing",
        "content commitment",
        "key agreement",
        "data encipherment",
        "cert sign",
        "crl sign",
        "encipher only",
        "decipher only",
        "any",
        "server auth",
        "code signing",
        "s/mime",
        "ipsec end system",
        "ipsec tunnel",
        "ipsec user",
        "timestamping",
        "ocsp signing",
        "microsoft sgc",
        "netscape sgc",
    ];
    #[rustfmt::skip]
    let table: [(&str, &str, &str, u64, &[&str]); 5] = [
        ("kubelet client",       pem!("kubelet-client-request"),  pem!("kubelet-client"),  365 * 24 * HOUR,      &["digital signature", "client auth"]),
        ("names and addresses",  pem!("kubelet-serving-request"), pem!("kubelet-serving"), HOUR,                 &["digital signature", "key encipherment", "server auth"]),
        ("a subject in full",    pem!("groups-request"),          pem!("groups"),          40 * 365 * 24 * HOUR, &["client auth"]),
        ("no subject",           pem!("nameless-request"),        pem!("nameless"),        8 * HOUR,             EVERYTHING),
        ("the authority's name", pem!("useless-request"),         pem!("useless"),         HOUR / 3,             &[]),
    ];
    let authority = authority();
    let now: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
    for (case, request, want, seconds, usages) in table {
        let request = Request::from_pem(request.as_bytes()).unwrap();
        let validity = validity(now, Duration::from_secs(seconds), authority.not_after).unwrap();
        let usages = Usages::parse(usages).unwrap();
        let got = issue(&authority, &request, &usages, validity, &serial_of(want)).unwrap();
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn keys_of_every_kind_can_be_certified_and_prove_that_they_are_there() {
    for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ED25519] {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let pem = CertificateParams::default().serialize_request(&key).unwrap().pem().unwrap();
        let request = Request::from_pem(pem.as_bytes()).unwrap();
        assert_eq!(request.public_key, key.subject_public_key_info(), "{algorithm:?}");
    }
    let large = include_bytes!("../../../../../keys/testdata/request-rsa16384.pem");
    assert!(Request::from_pem(large).is_ok());
}

#[test]
fn authorities_with_large_keys_issue_certificates() {
    use x509_parser::pem::parse_x509_pem;
    macro_rules! data {
        ($name:literal) => {
            include_bytes!(concat!("../../../../../keys/testdata/", $name)).as_slice()
        };
    }
    let request = Request::from_pem(pem!("kubelet-client-request").as_bytes()).unwrap();
    let now: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
    for (case, ca, key) in [
        ("RSA of 16384 bits", data!("ca-rsa16384.crt"), data!("rsa16384.key")),
        ("P-521", data!("ca-p521.crt"), data!("ca-p521.key")),
    ] {
        let authority = Authority::from_pem(ca, key).unwrap();
        let validity = validity(now, Duration::from_secs(3600), authority.not_after).unwrap();
        let usages = Usages::parse(&["client auth"]).unwrap();
        let issued =
            issue(&authority, &request, &usages, validity, &serial_of(pem!("kubelet-client"))).unwrap();
        let (_, block) = parse_x509_pem(issued.as_bytes()).unwrap();
        let issued = block.parse_x509().unwrap();
        let (_, block) = parse_x509_pem(ca).unwrap();
        let public = &*block.parse_x509().unwrap().public_key().subject_public_key.data.to_vec();
        let (content, signature) = (issued.tbs_certificate.as_ref(), &*issued.signature_value.data);
        let is_valid = if case == "P-521" {
            flyball_keys::verify_p521(public, &ring::digest::SHA512, content, signature).is_ok()
        } else {
            let public = flyball_keys::rsa::PublicKey::from_der(public).unwrap();
            let (padding, hash) = (flyball_keys::Padding::Pkcs1, &ring::digest::SHA256);
            public.verify(padding, hash, content, signature).is_ok()
        };
        assert!(is_valid, "{case}");
    }
}

#[test]
fn a_changed_request_is_refused() {
    for (case, pem) in [
        ("P-256", pem!("kubelet-client-request")),
        ("RSA", pem!("kubelet-serving-request")),
        ("P-521", pem!("groups-request")),
    ] {
        let (_, block) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).unwrap();
        let mut der = block.contents;
        // Somewhere in the subject.
        let at = der.windows(4).position(|bytes| bytes == b"node" || bytes == b"rgen").unwrap();
        der[at] = b'x';
        let changed = ["-----BEGIN CERTIFICATE REQUEST-----", "-----END CERTIFICATE REQUEST-----"];
        use base64::Engine as _;
        let body = base64::engine::general_purpose::STANDARD.encode(der);
        let error = Request::from_pem(format!("{}\n{body}\n{}\n", changed[0], changed[1]).as_bytes());
        assert!(matches!(error, Err(RequestError::Signature(_))), "{case}: {error:?}");
    }
}

#[test]
fn what_is_no_request_is_told_apart() {
    #[rustfmt::skip]
    let table = [
        ("text",          "hello",                                                                        "it must be a PEM block of type CERTIFICATE REQUEST"),
        ("a certificate", pem!("ca"),                                                                     "it must be a PEM block of type CERTIFICATE REQUEST"),
        ("rubbish",       "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n", "it is not a PKCS #10 certificate request"),
    ];
    for (case, pem, want) in table {
        assert_eq!(Request::from_pem(pem.as_bytes()).unwrap_err().to_string(), want, "{case}");
    }
}

#[test]
fn an_authority_is_one_certificate_and_its_own_key() {
    let (ca, key) = (pem!("ca"), pem!("ca-key"));
    let (twice, other) = (format!("{ca}{ca}"), KeyPair::generate().unwrap().serialize_pem());
    #[rustfmt::skip]
    let table = [
        ("good",             ca,             key,            ""),
        ("another key",      ca,             other.as_str(), "the key is not that of the certificate"),
        ("two certificates", twice.as_str(), key,            "the certificate file must hold one certificate in PEM form: there are 2"),
        ("none",             key,            key,            "the certificate file must hold one certificate in PEM form: there are 0"),
        ("no key",           ca,             ca,             "the key file cannot be used: it holds no private key in PEM form"),
    ];
    for (case, cert, key, want) in table {
        let got = Authority::from_pem(cert.as_bytes(), key.as_bytes());
        assert_eq!(got.err().map(|error| error.to_string()).unwrap_or_default(), want, "{case}");
    }
}

#[test]
fn unknown_usages_are_named() {
    let error = Usages::parse(&["client auth", "mowing", "lawn care"]).unwrap_err();
    assert_eq!(error.to_string(), r#"unrecognized usage values: ["mowing", "lawn care"]"#);
}
