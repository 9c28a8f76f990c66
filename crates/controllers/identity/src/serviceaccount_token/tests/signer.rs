//! Keys of every kind, made for these tests alone. The ids were computed by openssl.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use flyball_api::{Secret, ServiceAccount};
use p256::ecdsa::signature::Verifier as _;
use p256::pkcs8::DecodePrivateKey as _;
use ring::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use crate::serviceaccount_token::contents::claims;
use crate::serviceaccount_token::signer::Signer;

macro_rules! key {
    ($name:literal) => {
        include_bytes!(concat!("keys/", $name, ".pem")).as_slice()
    };
}

fn parts(token: &str) -> (Value, String, Vec<u8>) {
    let (text, signature) = token.rsplit_once('.').unwrap();
    let (header, _) = text.split_once('.').unwrap();
    let header = serde_json::from_slice(&BASE64.decode(header).unwrap()).unwrap();
    (header, text.to_owned(), BASE64.decode(signature).unwrap())
}

#[test]
fn the_key_chooses_algorithm_and_id() {
    #[rustfmt::skip]
    let table = [
        ("RSA, PKCS#1",              key!("rsa-pkcs1"),  "RS256", 256, "FY-mZrRzaFDfLQVtoMatIGsm3bl7erncVUPqZumSA9I"),
        ("RSA, PKCS#8",              key!("rsa-pkcs8"),  "RS256", 256, "FY-mZrRzaFDfLQVtoMatIGsm3bl7erncVUPqZumSA9I"),
        ("P-256, SEC 1, parameters", key!("p256-sec1"),  "ES256",  64, "siAOv2csOjecJH6LKrD5QlMxyyZUPFNn2ms70S8UJbs"),
        ("P-256, PKCS#8",            key!("p256-pkcs8"), "ES256",  64, "nlnyeyrrQy42pYE8nCvP-EV7rcYNKz9k2gky1UCH2Y0"),
        ("P-384, SEC 1",             key!("p384-sec1"),  "ES384",  96, "oFnbaS28eNM518MagKPR1Apsh-FBay-csZYMX0CueHA"),
        ("P-384, PKCS#8",            key!("p384-pkcs8"), "ES384",  96, "py_vvT-JY76B5c6fEMpiSpmgFZvVKCBslm-jImXnt9E"),
        ("P-521, SEC 1",             key!("p521-sec1"),  "ES512", 132, "_448-TFiPsnQgTos5sYXo7ZzMihXM5_mbgb69Li_Cgk"),
        ("P-521, PKCS#8",            key!("p521-pkcs8"), "ES512", 132, "xIYFDTjKzD19wGUNy93dR7qjJR-GW2vRbJZzVq7cJbw"),
    ];
    let large = include_bytes!("../../../../../keys/testdata/rsa16384.key").as_slice();
    let large = ("RSA, 16384 bits", large, "RS256", 2048, "0n53rXC8nSPouAUs9lXq1wGIX_JebcAUhGZFKosfnXc");
    for (case, pem, algorithm, length, id) in table.into_iter().chain([large]) {
        let token = Signer::from_pem(pem).unwrap().sign(&json!({"a": 1})).unwrap();
        let (header, _, signature) = parts(&token);
        assert_eq!(header, json!({"alg": algorithm, "kid": id}), "{case}");
        assert_eq!(signature.len(), length, "{case}");
    }
}

#[test]
fn a_token_is_byte_for_byte_what_upstream_makes_of_the_same_account() {
    let made: Secret = serde_json::from_value(json!({"metadata": {"name": "t", "namespace": "n"}})).unwrap();
    let account: ServiceAccount =
        serde_json::from_value(json!({"metadata": {"name": "robot", "namespace": "n", "uid": "u1"}}))
            .unwrap();
    let token = Signer::from_pem(key!("rsa-pkcs1")).unwrap().sign(&claims(&made, &account)).unwrap();
    assert_eq!(token, include_str!("keys/rsa-upstream.jwt"));
}

#[test]
fn header_and_claims_are_compact_and_sorted() {
    let token =
        Signer::from_pem(key!("p256-pkcs8")).unwrap().sign(&json!({"sub": "x", "iss": "<y>"})).unwrap();
    let text: Vec<String> = token
        .split('.')
        .take(2)
        .map(|part| String::from_utf8(BASE64.decode(part).unwrap()).unwrap())
        .collect();
    assert_eq!(text[0], r#"{"alg":"ES256","kid":"nlnyeyrrQy42pYE8nCvP-EV7rcYNKz9k2gky1UCH2Y0"}"#);
    assert_eq!(text[1], r#"{"iss":"\u003cy\u003e","sub":"x"}"#);
}

#[test]
fn signatures_can_be_verified() {
    let signed = |pem: &[u8]| parts(&Signer::from_pem(pem).unwrap().sign(&json!({"sub": "x"})).unwrap());

    let (_, text, signature) = signed(key!("rsa-pkcs8"));
    let pair = RsaKeyPair::from_pkcs8(&pkcs8(key!("rsa-pkcs8"))).unwrap();
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key().as_ref());
    public.verify(text.as_bytes(), &signature).unwrap();
    assert!(public.verify(b"another text", &signature).is_err());

    let (_, text, signature) = signed(key!("p256-pkcs8"));
    let key =
        p256::ecdsa::SigningKey::from(p256::SecretKey::from_pkcs8_der(&pkcs8(key!("p256-pkcs8"))).unwrap());
    let signature = p256::ecdsa::Signature::from_slice(&signature).unwrap();
    key.verifying_key().verify(text.as_bytes(), &signature).unwrap();

    let (_, text, signature) = signed(key!("p384-pkcs8"));
    let key =
        p384::ecdsa::SigningKey::from(p384::SecretKey::from_pkcs8_der(&pkcs8(key!("p384-pkcs8"))).unwrap());
    let signature = p384::ecdsa::Signature::from_slice(&signature).unwrap();
    key.verifying_key().verify(text.as_bytes(), &signature).unwrap();

    let (_, text, signature) = signed(key!("p521-pkcs8"));
    let secret = p521::SecretKey::from_pkcs8_der(&pkcs8(key!("p521-pkcs8"))).unwrap();
    let key = p521::ecdsa::SigningKey::from_bytes(&secret.to_bytes()).unwrap();
    let signature = p521::ecdsa::Signature::from_slice(&signature).unwrap();
    p521::ecdsa::VerifyingKey::from(&key).verify(text.as_bytes(), &signature).unwrap();
}

fn pkcs8(pem: &[u8]) -> Vec<u8> {
    PrivateKeyDer::from_pem_slice(pem).unwrap().secret_der().to_vec()
}

#[test]
fn keys_of_other_kinds_are_refused_with_a_reason() {
    #[rustfmt::skip]
    let table = [
        ("no key",           b"nothing".as_slice(), "it holds no private key in PEM form"),
        ("an unused curve",  key!("k256-pkcs8"),    "it must be an RSA key, an ECDSA key on one of the curves P-256, P-384 and P-521, or an Ed25519 key"),
        ("Ed25519",          key!("ed25519"),       "it must be an RSA or ECDSA key: tokens are not signed with Ed25519"),
        ("too small",        key!("rsa-small"),     "it must be an RSA key of 2048 to 16384 bits: it has 1024 bits"),
    ];
    for (case, pem, want) in table {
        let error = Signer::from_pem(pem).err().expect(case);
        assert_eq!(error.to_string(), want, "{case}");
    }
}
