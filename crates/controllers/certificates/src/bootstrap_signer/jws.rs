//! Detached signatures: a JWS without its payload, by HMAC with SHA-256.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use flyball_api::canonical;
use ring::hmac;
use serde_json::json;

use crate::bootstrap_token::SigningToken;

/// `header..signature` of `content`.
pub fn detached(content: &str, token: &SigningToken) -> String {
    let header = BASE64.encode(canonical::to_string(&json!({"alg": "HS256", "kid": token.id})));
    let signed = format!("{header}.{}", BASE64.encode(content));
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.secret.as_bytes());
    format!("{header}..{}", BASE64.encode(hmac::sign(&key, signed.as_bytes())))
}
