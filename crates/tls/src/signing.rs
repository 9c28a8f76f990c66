//! Private keys that sign handshakes.

use std::fmt;
use std::sync::Arc;

use flyball_keys::{Algorithm, Form, Padding, PrivateKey};
use ring::digest::{self, SHA256, SHA384, SHA512};
use rustls::pki_types::{PrivateKeyDer, SubjectPublicKeyInfoDer};
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, OtherError, SignatureAlgorithm, SignatureScheme};

/// Best first, as with the keys that `ring` signs with.
const RSA: [(SignatureScheme, Padding, &digest::Algorithm); 6] = [
    (SignatureScheme::RSA_PSS_SHA512, Padding::Pss, &SHA512),
    (SignatureScheme::RSA_PSS_SHA384, Padding::Pss, &SHA384),
    (SignatureScheme::RSA_PSS_SHA256, Padding::Pss, &SHA256),
    (SignatureScheme::RSA_PKCS1_SHA512, Padding::Pkcs1, &SHA512),
    (SignatureScheme::RSA_PKCS1_SHA384, Padding::Pkcs1, &SHA384),
    (SignatureScheme::RSA_PKCS1_SHA256, Padding::Pkcs1, &SHA256),
];

/// A key that `ring` has refused; nothing if it is not known here either.
pub(crate) fn load(der: &PrivateKeyDer<'_>) -> Option<Result<Arc<dyn SigningKey>, Error>> {
    match PrivateKey::from_der(der) {
        Ok(key) if matches!(key.algorithm(), Algorithm::Rsa | Algorithm::P521) => {
            Some(Ok(Arc::new(Key(Arc::new(key)))))
        }
        Err(error @ flyball_keys::KeyError::Rsa(_)) => Some(Err(Error::Other(OtherError(Arc::new(error))))),
        _ => None,
    }
}

struct Key(Arc<PrivateKey>);

impl SigningKey for Key {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let (scheme, how) = match self.0.algorithm() {
            Algorithm::Rsa => {
                let (scheme, padding, hash) =
                    RSA.into_iter().find(|(scheme, ..)| offered.contains(scheme))?;
                (scheme, How::Rsa(padding, hash))
            }
            _ => (SignatureScheme::ECDSA_NISTP521_SHA512, How::P521),
        };
        offered.contains(&scheme).then(|| Box::new(Handshake { key: self.0.clone(), scheme, how }) as _)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(self.0.public().into())
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        match self.0.algorithm() {
            Algorithm::Rsa => SignatureAlgorithm::RSA,
            _ => SignatureAlgorithm::ECDSA,
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?})", self.0.algorithm())
    }
}

struct Handshake {
    key: Arc<PrivateKey>,
    scheme: SignatureScheme,
    how: How,
}

enum How {
    Rsa(Padding, &'static digest::Algorithm),
    P521,
}

impl Signer for Handshake {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let signature = match self.how {
            How::Rsa(padding, hash) => self.key.sign_rsa(padding, hash, message),
            How::P521 => self.key.sign(message, Form::Der),
        };
        signature.map_err(|refused| Error::Other(OtherError(Arc::new(refused))))
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handshake({:?})", self.scheme)
    }
}
