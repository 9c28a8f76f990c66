//! Private keys and signatures with them. The controllers that sign certificates and tokens use it, and `flyball-tls` for
//! keys that `ring` does not support ([decision](../../../docs/decisions/keys.md)).

mod padding;
pub mod rsa;

#[cfg(test)]
mod tests;

use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::signature::hazmat::PrehashVerifier as _;
use p256::pkcs8::der::asn1::{AnyRef, BitStringRef};
use p256::pkcs8::der::{self, Encode as _};
use p256::pkcs8::{
    self, AlgorithmIdentifierRef, DecodePrivateKey, EncodePublicKey, ObjectIdentifier, PrivateKeyInfoRef,
    SubjectPublicKeyInfoRef,
};
use ring::digest;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _, RsaEncoding, RsaKeyPair};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;

pub use crate::padding::Padding;
pub use crate::rsa::{Invalid, RsaProblem};

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("it holds no private key in PEM form")]
    Pem(#[source] rustls_pki_types::pem::Error),
    /// An RSA key that is broken, or too small or too large.
    #[error("it must be an RSA key of 2048 to 16384 bits: {0}")]
    Rsa(RsaProblem),
    #[error(
        "it must be an RSA key, an ECDSA key on one of the curves P-256, P-384 and P-521, or an Ed25519 key"
    )]
    Unknown,
    #[error("its public key cannot be encoded")]
    Public(#[source] der::Error),
}

#[derive(Debug, thiserror::Error)]
#[error("the key cannot sign")]
pub struct Refused;

/// A signature algorithm with its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// PKCS #1 v1.5 with SHA-256.
    Rsa,
    /// ECDSA on P-256 with SHA-256.
    P256,
    /// ECDSA on P-384 with SHA-384.
    P384,
    /// ECDSA on P-521 with SHA-512.
    P521,
    /// EdDSA on Curve25519.
    Ed25519,
}

/// The encoding of an ECDSA signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The two numbers with fixed length, one after the other, as in tokens.
    Fixed,
    /// An ASN.1 sequence of the two numbers, as in certificates.
    Der,
}

pub struct PrivateKey {
    pair: Pair,
    public: Vec<u8>,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    /// An RSA key that `ring` does not take.
    OtherRsa(Box<rsa::Key>),
    P256(p256::ecdsa::SigningKey),
    P384(p384::ecdsa::SigningKey),
    P521(Box<p521::ecdsa::SigningKey>),
    Ed25519(Ed25519KeyPair),
}

impl PrivateKey {
    /// Parses a key: PKCS #1 or PKCS #8 for RSA, SEC 1 or PKCS #8 for ECDSA, PKCS #8 for Ed25519. Other PEM blocks are
    /// skipped.
    pub fn from_pem(pem: &[u8]) -> Result<Self, KeyError> {
        Self::from_der(&PrivateKeyDer::from_pem_slice(pem).map_err(KeyError::Pem)?)
    }

    pub fn from_der(der: &PrivateKeyDer<'_>) -> Result<Self, KeyError> {
        let (pair, public) = match der {
            PrivateKeyDer::Pkcs1(der) => from_pkcs1(der.secret_pkcs1_der())?,
            PrivateKeyDer::Sec1(der) => {
                let der = der.secret_sec1_der();
                // The length of the number depends on the curve: the smallest one that accepts it is right.
                let small = p256::SecretKey::from_sec1_der(der).ok().map(Curve::P256);
                let middle = || p384::SecretKey::from_sec1_der(der).ok().map(Curve::P384);
                let large = || p521::SecretKey::from_sec1_der(der).ok().map(Curve::P521);
                small.or_else(middle).or_else(large).ok_or(KeyError::Unknown)?.split()?
            }
            PrivateKeyDer::Pkcs8(der) => from_pkcs8(der.secret_pkcs8_der())?,
            _ => return Err(KeyError::Unknown),
        };
        Ok(Self { pair, public })
    }

    pub fn algorithm(&self) -> Algorithm {
        match &self.pair {
            Pair::Rsa(_) | Pair::OtherRsa(_) => Algorithm::Rsa,
            Pair::P256(_) => Algorithm::P256,
            Pair::P384(_) => Algorithm::P384,
            Pair::P521(_) => Algorithm::P521,
            Pair::Ed25519(_) => Algorithm::Ed25519,
        }
    }

    /// The public key: a SubjectPublicKeyInfo in DER.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    pub fn sign(&self, message: &[u8], form: Form) -> Result<Vec<u8>, Refused> {
        macro_rules! ecdsa {
            ($curve:ident, $key:expr) => {{
                let signature: $curve::ecdsa::Signature = $key.try_sign(message).map_err(|_| Refused)?;
                match form {
                    Form::Fixed => signature.to_bytes().to_vec(),
                    Form::Der => signature.to_der().as_bytes().to_vec(),
                }
            }};
        }
        Ok(match &self.pair {
            Pair::Rsa(_) | Pair::OtherRsa(_) => self.sign_rsa(Padding::Pkcs1, &digest::SHA256, message)?,
            Pair::P256(key) => ecdsa!(p256, key),
            Pair::P384(key) => ecdsa!(p384, key),
            Pair::P521(key) => ecdsa!(p521, key),
            Pair::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        })
    }

    /// A signature with another padding or hash than that of [`Self::sign`]. Only RSA keys have a choice.
    pub fn sign_rsa(
        &self,
        padding: Padding,
        hash: &'static digest::Algorithm,
        message: &[u8],
    ) -> Result<Vec<u8>, Refused> {
        match &self.pair {
            Pair::Rsa(pair) => {
                let how = ring_encoding(padding, hash).ok_or(Refused)?;
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(how, &SystemRandom::new(), message, &mut signature).map_err(|_| Refused)?;
                Ok(signature)
            }
            Pair::OtherRsa(key) => key.sign(padding, hash, message),
            _ => Err(Refused),
        }
    }
}

fn ring_encoding(padding: Padding, hash: &digest::Algorithm) -> Option<&'static dyn RsaEncoding> {
    use ring::signature as by;
    let encodings: [(&digest::Algorithm, &'static dyn RsaEncoding, &'static dyn RsaEncoding); 3] = [
        (&digest::SHA256, &by::RSA_PKCS1_SHA256, &by::RSA_PSS_SHA256),
        (&digest::SHA384, &by::RSA_PKCS1_SHA384, &by::RSA_PSS_SHA384),
        (&digest::SHA512, &by::RSA_PKCS1_SHA512, &by::RSA_PSS_SHA512),
    ];
    let (_, pkcs1, pss) = encodings.into_iter().find(|(of, ..)| *of == hash)?;
    Some(match padding {
        Padding::Pkcs1 => pkcs1,
        Padding::Pss => pss,
    })
}

/// Verifies an ECDSA signature, in its ASN.1 form, with a point on P-521.
pub fn verify_p521(
    point: &[u8],
    hash: &'static digest::Algorithm,
    message: &[u8],
    signature: &[u8],
) -> Result<(), Invalid> {
    let key = p521::ecdsa::VerifyingKey::from_sec1_bytes(point).map_err(|_| Invalid)?;
    let signature = p521::ecdsa::Signature::from_der(signature).map_err(|_| Invalid)?;
    key.verify_prehash(digest::digest(hash, message).as_ref(), &signature).map_err(|_| Invalid)
}

fn from_pkcs8(der: &[u8]) -> Result<(Pair, Vec<u8>), KeyError> {
    if let Some(curve) = Curve::from_pkcs8(der) {
        return curve.split();
    }
    if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
        let public = public_key(ED25519, None, pair.public_key().as_ref())?;
        return Ok((Pair::Ed25519(pair), public));
    }
    match PrivateKeyInfoRef::try_from(der) {
        Ok(info) if info.algorithm.oid == RSA => from_pkcs1(info.private_key.as_bytes()),
        _ => Err(KeyError::Unknown),
    }
}

fn from_pkcs1(der: &[u8]) -> Result<(Pair, Vec<u8>), KeyError> {
    if let Ok(pair) = RsaKeyPair::from_der(der) {
        let public = public_key(RSA, Some(AnyRef::NULL), pair.public_key().as_ref())?;
        return Ok((Pair::Rsa(Box::new(pair)), public));
    }
    let key = rsa::Key::from_der(der).map_err(KeyError::Rsa)?;
    let public = public_key(RSA, Some(AnyRef::NULL), key.public_der())?;
    Ok((Pair::OtherRsa(Box::new(key)), public))
}

fn public_key(
    oid: ObjectIdentifier,
    parameters: Option<AnyRef<'_>>,
    bits: &[u8],
) -> Result<Vec<u8>, KeyError> {
    let subject_public_key = BitStringRef::from_bytes(bits).map_err(KeyError::Public)?;
    let algorithm = AlgorithmIdentifierRef { oid, parameters };
    SubjectPublicKeyInfoRef { algorithm, subject_public_key }.to_der().map_err(KeyError::Public)
}

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

    fn split(self) -> Result<(Pair, Vec<u8>), KeyError> {
        let encoded = match &self {
            Self::P256(key) => key.public_key().to_public_key_der(),
            Self::P384(key) => key.public_key().to_public_key_der(),
            Self::P521(key) => key.public_key().to_public_key_der(),
        };
        let public = encoded.map_err(|error| match error {
            pkcs8::spki::Error::Asn1(error) => KeyError::Public(error),
            _ => KeyError::Unknown,
        })?;
        let pair = match self {
            Self::P256(key) => Pair::P256(key.into()),
            Self::P384(key) => Pair::P384(key.into()),
            Self::P521(key) => {
                let key = p521::ecdsa::SigningKey::from_bytes(&key.to_bytes());
                Pair::P521(Box::new(key.map_err(|_| KeyError::Unknown)?))
            }
        };
        Ok((pair, public.into_vec()))
    }
}
