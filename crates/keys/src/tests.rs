//! The keys, and signatures to compare with, were made by openssl.

use ring::digest::{self, SHA256, SHA384, SHA512};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;

use crate::rsa::PublicKey;
use crate::{Form, Padding, PrivateKey, RsaProblem, rsa, verify_p521};

const MESSAGE: &[u8] = b"a message";

macro_rules! data {
    ($name:literal) => {
        include_bytes!(concat!("../testdata/", $name)).as_slice()
    };
}

fn public(pem: &[u8]) -> PublicKey {
    let der = PrivateKeyDer::from_pem_slice(pem).unwrap();
    PublicKey::from_der(rsa::Key::from_der(der.secret_der()).unwrap().public_der()).unwrap()
}

#[test]
fn signatures_with_large_keys_are_those_of_openssl() {
    #[rustfmt::skip]
    let table: [(&str, &[u8], &digest::Algorithm, &[u8]); 2] = [
        ("3000 bits, which ring does not take", data!("rsa3000.key"),  &SHA512, data!("rsa3000-pkcs1-sha512.sig")),
        ("16384 bits",                          data!("rsa16384.key"), &SHA256, data!("rsa16384-pkcs1-sha256.sig")),
    ];
    for (case, pem, hash, want) in table {
        let key = PrivateKey::from_pem(pem).unwrap();
        assert!(key.sign_rsa(Padding::Pkcs1, hash, MESSAGE).unwrap() == want, "{case}");
    }
}

/// What is tried, how it was signed, what, the signature, and whether it is valid.
type Row<'a> = (&'a str, Padding, &'static digest::Algorithm, &'a [u8], &'a [u8], bool);

#[test]
fn signatures_of_others_are_verified() {
    let key = public(data!("rsa16384.key"));
    let (pkcs1, pss) = (data!("rsa16384-pkcs1-sha256.sig"), data!("rsa16384-pss-sha384.sig"));
    let mut changed = pss.to_vec();
    changed[77] ^= 1;
    #[rustfmt::skip]
    let table: [Row<'_>; 8] = [
        ("PKCS #1",            Padding::Pkcs1, &SHA256, MESSAGE,    pkcs1,        true),
        ("PSS",                Padding::Pss,   &SHA384, MESSAGE,    pss,          true),
        ("another message",    Padding::Pkcs1, &SHA256, b"another", pkcs1,        false),
        ("another message",    Padding::Pss,   &SHA384, b"another", pss,          false),
        ("another padding",    Padding::Pkcs1, &SHA384, MESSAGE,    pss,          false),
        ("another hash",       Padding::Pss,   &SHA256, MESSAGE,    pss,          false),
        ("a changed bit",      Padding::Pss,   &SHA384, MESSAGE,    &changed,     false),
        ("more than the key",  Padding::Pss,   &SHA384, MESSAGE,    &[0xff; 2048], false),
    ];
    for (case, padding, hash, message, signature, want) in table {
        assert_eq!(key.verify(padding, hash, message, signature).is_ok(), want, "{case}");
    }
    assert!(key.verify(Padding::Pkcs1, &SHA256, MESSAGE, &pkcs1[1..]).is_err(), "too short");

    let key = p521::ecdsa::SigningKey::from(
        p521::SecretKey::from_sec1_der(
            PrivateKeyDer::from_pem_slice(data!("p521.key")).unwrap().secret_der(),
        )
        .unwrap(),
    );
    let point = p521::ecdsa::VerifyingKey::from(&key).to_sec1_point(false);
    let verify = |hash, message, signature| verify_p521(point.as_bytes(), hash, message, signature).is_ok();
    assert!(verify(&SHA512, MESSAGE, data!("p521-sha512.sig")));
    assert!(verify(&SHA256, MESSAGE, data!("p521-sha256.sig")));
    assert!(!verify(&SHA512, MESSAGE, data!("p521-sha256.sig")));
    assert!(!verify(&SHA512, b"another", data!("p521-sha512.sig")));
}

#[test]
fn what_is_signed_can_be_verified_whatever_the_padding() {
    // 3000 bits: the encoding of PSS ends within a byte, and ring can verify what it cannot sign.
    use ring::signature as by;
    let pem = data!("rsa3000.key");
    let (key, public) = (PrivateKey::from_pem(pem).unwrap(), public(pem));
    let der = PrivateKeyDer::from_pem_slice(pem).unwrap();
    let encoded = rsa::Key::from_der(der.secret_der()).unwrap().public_der().to_vec();
    let table: [(Padding, &digest::Algorithm, &dyn by::VerificationAlgorithm); 6] = [
        (Padding::Pkcs1, &SHA256, &by::RSA_PKCS1_2048_8192_SHA256),
        (Padding::Pkcs1, &SHA384, &by::RSA_PKCS1_2048_8192_SHA384),
        (Padding::Pkcs1, &SHA512, &by::RSA_PKCS1_2048_8192_SHA512),
        (Padding::Pss, &SHA256, &by::RSA_PSS_2048_8192_SHA256),
        (Padding::Pss, &SHA384, &by::RSA_PSS_2048_8192_SHA384),
        (Padding::Pss, &SHA512, &by::RSA_PSS_2048_8192_SHA512),
    ];
    for (padding, hash, ring) in table {
        let signature = key.sign_rsa(padding, hash, MESSAGE).unwrap();
        assert!(public.verify(padding, hash, MESSAGE, &signature).is_ok(), "{padding:?} {hash:?}");
        let by_ring = by::UnparsedPublicKey::new(ring, &encoded).verify(MESSAGE, &signature);
        assert!(by_ring.is_ok(), "{padding:?} {hash:?} by ring");
    }
}

#[test]
fn only_rsa_keys_have_a_choice_of_padding() {
    let key = PrivateKey::from_pem(data!("p521.key")).unwrap();
    assert!(key.sign_rsa(Padding::Pss, &SHA256, MESSAGE).is_err());
    assert!(key.sign(MESSAGE, Form::Der).is_ok());
}

#[test]
fn keys_that_are_refused_say_why() {
    let whole = PrivateKeyDer::from_pem_slice(data!("rsa3000.key")).unwrap().secret_der().to_vec();
    // The last byte is within the inverse of a prime, one in the first third within the modulus.
    let (mut wrong_inverse, mut wrong_modulus) = (whole.clone(), whole.clone());
    *wrong_inverse.last_mut().unwrap() ^= 2;
    wrong_modulus[100] ^= 2;
    let der = |pem: &[u8]| PrivateKeyDer::from_pem_slice(pem).unwrap().secret_der().to_vec();
    #[rustfmt::skip]
    let table = [
        ("small",             der(data!("rsa-small.key")),     Some(RsaProblem::Size(1024))),
        ("exponent 3",        der(data!("rsa-exponent3.key")), Some(RsaProblem::Exponent)),
        ("a wrong inverse",   wrong_inverse,                   Some(RsaProblem::Inconsistent)),
        ("a wrong modulus",   wrong_modulus,                   Some(RsaProblem::Inconsistent)),
        ("cut off",           whole[..whole.len() - 1].to_vec(), Some(RsaProblem::Encoding)),
        ("followed by more",  [&whole[..], &[0]].concat(),     Some(RsaProblem::Encoding)),
        ("no key",            vec![],                          Some(RsaProblem::Encoding)),
        ("good",              whole.clone(),                   None),
    ];
    for (case, der, want) in table {
        assert_eq!(rsa::Key::from_der(&der).err(), want, "{case}");
    }
}
