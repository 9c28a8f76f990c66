//! The cryptography of TLS: that of `ring`, and keys that `ring` does not support: RSA keys of up to 16384 bits and ECDSA keys on
//! P-521 ([decision](../../../docs/decisions/keys.md)).

mod signing;
mod unverified;
mod verifying;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, KeyProvider, ring};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::SigningKey;

pub use crate::unverified::Unverified;
pub use crate::verifying::has_oversized_key;

/// The private keys that can be used, for errors.
pub const KEYS: &str = "RSA of 2048 to 16384 bits, ECDSA on P-256, P-384 or P-521, or Ed25519";

pub fn provider() -> CryptoProvider {
    CryptoProvider {
        key_provider: &Keys,
        signature_verification_algorithms: verifying::ALGORITHMS,
        ..ring::default_provider()
    }
}

/// Makes this the default provider of the process, if there is none yet.
pub fn install() {
    // Fails only if there is one already.
    let _ = provider().install_default();
}

#[derive(Debug)]
struct Keys;

impl KeyProvider for Keys {
    fn load_private_key(&self, key: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, rustls::Error> {
        match ring::sign::any_supported_type(&key) {
            Ok(key) => Ok(key),
            Err(error) => signing::load(&key).unwrap_or(Err(error)),
        }
    }
}
