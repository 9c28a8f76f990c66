//! Signs tokens with the cluster's key, in the form that Go's jose library gives them: whoever compares tokens by
//! their bytes, or finds the key by its id, sees no difference.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use flyball_api::canonical;
use flyball_keys::{Algorithm, Form, PrivateKey, Refused};
use serde_json::{Value, json};

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error(transparent)]
    Key(#[from] flyball_keys::KeyError),
    /// The API server knows no such tokens.
    #[error("it must be an RSA or ECDSA key: tokens are not signed with Ed25519")]
    Ed25519,
}

/// The cluster's key, ready to sign.
pub struct Signer {
    key: PrivateKey,
    header: String,
}

impl Signer {
    /// Reads a key: PKCS #1 or PKCS #8 for RSA, SEC 1 or PKCS #8 for ECDSA. Other blocks in the file are passed over.
    pub fn from_pem(pem: &[u8]) -> Result<Self, KeyError> {
        let key = PrivateKey::from_pem(pem)?;
        let algorithm = match key.algorithm() {
            Algorithm::Rsa => "RS256",
            Algorithm::P256 => "ES256",
            Algorithm::P384 => "ES384",
            Algorithm::P521 => "ES512",
            Algorithm::Ed25519 => return Err(KeyError::Ed25519),
        };
        let id = BASE64.encode(ring::digest::digest(&ring::digest::SHA256, key.public()));
        let header = BASE64.encode(canonical::to_string(&json!({"alg": algorithm, "kid": id})));
        Ok(Self { key, header })
    }

    /// A token that says `claims`.
    pub fn sign(&self, claims: &Value) -> Result<String, Refused> {
        let text = format!("{}.{}", self.header, BASE64.encode(canonical::to_string(claims)));
        let signature = self.key.sign(text.as_bytes(), Form::Fixed)?;
        Ok(format!("{text}.{}", BASE64.encode(signature)))
    }
}
