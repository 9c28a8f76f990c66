//! Signs tokens with the cluster's key, in the form that Go's jose library gives them: whoever compares tokens by
//! their bytes, or finds the key by its id, sees no difference.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use flyball_api::canonical;
use p256::ecdsa::signature::Signer as _;
use p256::pkcs8::der::asn1::{AnyRef, BitStringRef};
use p256::pkcs8::der::{self, Encode as _};
use p256::pkcs8::{
    self, AlgorithmIdentifierRef, DecodePrivateKey, EncodePublicKey, ObjectIdentifier,
    SubjectPublicKeyInfoRef,
};
use ring::rand::SystemRandom;
use ring::signature::{KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// No key is found.
    #[error("it holds no private key in PEM form")]
    Pem(#[source] rustls_pki_types::pem::Error),
    /// An RSA key that is broken, or too small or too large.
    #[error("it must be an RSA key of 2048 to 4096 bits: {0}")]
    Rsa(ring::error::KeyRejected),
    /// A key of another kind.
    #[error("it must be an RSA key or an ECDSA key on one of the curves P-256, P-384 and P-521")]
    Unknown,
    /// The public half cannot be written.
    #[error("its public key cannot be encoded")]
    Public(#[source] der::Error),
}

/// Why a token could not be signed.
#[derive(Debug, thiserror::Error)]
#[error("the key refuses to sign")]
pub struct Refused;

enum Key {
    Rsa(Box<RsaKeyPair>),
    P256(p256::ecdsa::SigningKey),
    P384(p384::ecdsa::SigningKey),
    P521(Box<p521::ecdsa::SigningKey>),
}

/// The cluster's key, ready to sign.
pub struct Signer {
    key: Key,
    header: String,
}

impl Signer {
    /// Reads a key: PKCS#1 or PKCS#8 for RSA, SEC 1 or PKCS#8 for ECDSA. Other blocks in the file are passed over.
    pub fn from_pem(pem: &[u8]) -> Result<Self, KeyError> {
        let (key, public) = match PrivateKeyDer::from_pem_slice(pem).map_err(KeyError::Pem)? {
            PrivateKeyDer::Pkcs1(der) => {
                rsa(RsaKeyPair::from_der(der.secret_pkcs1_der()).map_err(KeyError::Rsa)?)?
            }
            PrivateKeyDer::Sec1(der) => {
                let der = der.secret_sec1_der();
                // The length of the number tells the curve: the smallest that it fits is the right one.
                let small = p256::SecretKey::from_sec1_der(der).ok().map(Curve::P256);
                let middle = || p384::SecretKey::from_sec1_der(der).ok().map(Curve::P384);
                let large = || p521::SecretKey::from_sec1_der(der).ok().map(Curve::P521);
                small.or_else(middle).or_else(large).ok_or(KeyError::Unknown)?.split()?
            }
            PrivateKeyDer::Pkcs8(der) => match Curve::from_pkcs8(der.secret_pkcs8_der()) {
                Some(curve) => curve.split()?,
                None => rsa(RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).map_err(not_rsa)?)?,
            },
            _ => return Err(KeyError::Unknown),
        };
        let algorithm = match &key {
            Key::Rsa(_) => "RS256",
            Key::P256(_) => "ES256",
            Key::P384(_) => "ES384",
            Key::P521(_) => "ES512",
        };
        let id = BASE64.encode(ring::digest::digest(&ring::digest::SHA256, &public));
        let header = BASE64.encode(canonical::to_string(&json!({"alg": algorithm, "kid": id})));
        Ok(Self { key, header })
    }

    /// A token that says `claims`.
    pub fn sign(&self, claims: &Value) -> Result<String, Refused> {
        let text = format!("{}.{}", self.header, BASE64.encode(canonical::to_string(claims)));
        let signature = match &self.key {
            Key::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
                    .map_err(|_| Refused)?;
                signature
            }
            Key::P256(key) => {
                let signature: p256::ecdsa::Signature = key.try_sign(text.as_bytes()).map_err(|_| Refused)?;
                signature.to_bytes().to_vec()
            }
            Key::P384(key) => {
                let signature: p384::ecdsa::Signature = key.try_sign(text.as_bytes()).map_err(|_| Refused)?;
                signature.to_bytes().to_vec()
            }
            Key::P521(key) => {
                let signature: p521::ecdsa::Signature = key.try_sign(text.as_bytes()).map_err(|_| Refused)?;
                signature.to_bytes().to_vec()
            }
        };
        Ok(format!("{text}.{}", BASE64.encode(signature)))
    }
}

/// A PKCS#8 key that is neither on a known curve nor RSA.
fn not_rsa(error: ring::error::KeyRejected) -> KeyError {
    if error.to_string() == "WrongAlgorithm" { KeyError::Unknown } else { KeyError::Rsa(error) }
}

/// An RSA key and its public half, in the form that the key's id is made of.
fn rsa(pair: RsaKeyPair) -> Result<(Key, Vec<u8>), KeyError> {
    let info = SubjectPublicKeyInfoRef {
        algorithm: AlgorithmIdentifierRef { oid: RSA, parameters: Some(AnyRef::NULL) },
        subject_public_key: BitStringRef::from_bytes(pair.public_key().as_ref()).map_err(KeyError::Public)?,
    };
    let public = info.to_der().map_err(KeyError::Public)?;
    Ok((Key::Rsa(Box::new(pair)), public))
}

/// A number on a curve.
enum Curve {
    P256(p256::SecretKey),
    P384(p384::SecretKey),
    P521(p521::SecretKey),
}

impl Curve {
    fn from_pkcs8(der: &[u8]) -> Option<Self> {
        let small = p256::SecretKey::from_pkcs8_der(der).ok().map(Self::P256);
        let middle = || p384::SecretKey::from_pkcs8_der(der).ok().map(Self::P384);
        let large = || p521::SecretKey::from_pkcs8_der(der).ok().map(Self::P521);
        small.or_else(middle).or_else(large)
    }

    /// The key and its public half, in the form that the key's id is made of.
    fn split(self) -> Result<(Key, Vec<u8>), KeyError> {
        let encoded = match &self {
            Self::P256(key) => key.public_key().to_public_key_der(),
            Self::P384(key) => key.public_key().to_public_key_der(),
            Self::P521(key) => key.public_key().to_public_key_der(),
        };
        let public = encoded.map_err(|error| match error {
            pkcs8::spki::Error::Asn1(error) => KeyError::Public(error),
            _ => KeyError::Unknown,
        })?;
        let key = match self {
            Self::P256(key) => Key::P256(key.into()),
            Self::P384(key) => Key::P384(key.into()),
            Self::P521(key) => {
                let key = p521::ecdsa::SigningKey::from_bytes(&key.to_bytes());
                Key::P521(Box::new(key.map_err(|_| KeyError::Unknown)?))
            }
        };
        Ok((key, public.into_vec()))
    }
}
