//! Signatures of others: in handshakes, and of CAs in certificates.

use flyball_keys::{Padding, rsa, verify_p521};
use ring::digest::{self, SHA256, SHA384, SHA512};
use rustls::SignatureScheme;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{
    AlgorithmIdentifier, CertificateDer, InvalidSignature, SignatureVerificationAlgorithm, alg_id,
};
use webpki::ring as by_ring;

type Verifier = dyn SignatureVerificationAlgorithm;

/// Go refuses a peer whose certificates have RSA keys of more than 8192 bits, but takes CAs of any size from its files. So do we:
/// handshakes are verified with at most 8192 bits, which is `ring`'s limit.
pub(crate) static ALGORITHMS: WebPkiSupportedAlgorithms = WebPkiSupportedAlgorithms {
    all: &[
        by_ring::ECDSA_P256_SHA256,
        by_ring::ECDSA_P256_SHA384,
        by_ring::ECDSA_P384_SHA256,
        by_ring::ECDSA_P384_SHA384,
        &P521_SHA256,
        &P521_SHA384,
        &P521_SHA512,
        by_ring::ED25519,
        &Rsa { ring: by_ring::RSA_PSS_2048_8192_SHA256_LEGACY_KEY, padding: Padding::Pss, hash: &SHA256 },
        &Rsa { ring: by_ring::RSA_PSS_2048_8192_SHA384_LEGACY_KEY, padding: Padding::Pss, hash: &SHA384 },
        &Rsa { ring: by_ring::RSA_PSS_2048_8192_SHA512_LEGACY_KEY, padding: Padding::Pss, hash: &SHA512 },
        &Rsa { ring: by_ring::RSA_PKCS1_2048_8192_SHA256, padding: Padding::Pkcs1, hash: &SHA256 },
        &Rsa { ring: by_ring::RSA_PKCS1_2048_8192_SHA384, padding: Padding::Pkcs1, hash: &SHA384 },
        &Rsa { ring: by_ring::RSA_PKCS1_2048_8192_SHA512, padding: Padding::Pkcs1, hash: &SHA512 },
        by_ring::RSA_PKCS1_2048_8192_SHA256_ABSENT_PARAMS,
        by_ring::RSA_PKCS1_2048_8192_SHA384_ABSENT_PARAMS,
        by_ring::RSA_PKCS1_2048_8192_SHA512_ABSENT_PARAMS,
    ],
    // In TLS 1.2 the scheme names the hash and not the curve, so that each of the curves has to be tried.
    mapping: &[
        (
            SignatureScheme::ECDSA_NISTP384_SHA384,
            &[by_ring::ECDSA_P384_SHA384, by_ring::ECDSA_P256_SHA384, &P521_SHA384],
        ),
        (
            SignatureScheme::ECDSA_NISTP256_SHA256,
            &[by_ring::ECDSA_P256_SHA256, by_ring::ECDSA_P384_SHA256, &P521_SHA256],
        ),
        (SignatureScheme::ECDSA_NISTP521_SHA512, &[&P521_SHA512]),
        (SignatureScheme::ED25519, &[by_ring::ED25519]),
        (SignatureScheme::RSA_PSS_SHA512, &[by_ring::RSA_PSS_2048_8192_SHA512_LEGACY_KEY]),
        (SignatureScheme::RSA_PSS_SHA384, &[by_ring::RSA_PSS_2048_8192_SHA384_LEGACY_KEY]),
        (SignatureScheme::RSA_PSS_SHA256, &[by_ring::RSA_PSS_2048_8192_SHA256_LEGACY_KEY]),
        (SignatureScheme::RSA_PKCS1_SHA512, &[by_ring::RSA_PKCS1_2048_8192_SHA512]),
        (SignatureScheme::RSA_PKCS1_SHA384, &[by_ring::RSA_PKCS1_2048_8192_SHA384]),
        (SignatureScheme::RSA_PKCS1_SHA256, &[by_ring::RSA_PKCS1_2048_8192_SHA256]),
    ],
};

/// The bits of an RSA key that `ring` verifies with.
const RING_BITS: u32 = 8192;

/// RSA of any size.
#[derive(Debug)]
struct Rsa {
    ring: &'static Verifier,
    padding: Padding,
    hash: &'static digest::Algorithm,
}

impl SignatureVerificationAlgorithm for Rsa {
    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.ring.public_key_alg_id()
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.ring.signature_alg_id()
    }

    fn verify_signature(&self, key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), InvalidSignature> {
        // A signature is as long as its key.
        if signature.len() * 8 <= RING_BITS as usize {
            return self.ring.verify_signature(key, message, signature);
        }
        let key = rsa::PublicKey::from_der(key).map_err(|_| InvalidSignature)?;
        key.verify(self.padding, self.hash, message, signature).map_err(|_| InvalidSignature)
    }
}

static P521_SHA256: P521 = P521 { hash: &SHA256, signature: alg_id::ECDSA_SHA256 };
static P521_SHA384: P521 = P521 { hash: &SHA384, signature: alg_id::ECDSA_SHA384 };
static P521_SHA512: P521 = P521 { hash: &SHA512, signature: alg_id::ECDSA_SHA512 };

/// ECDSA on P-521.
#[derive(Debug)]
struct P521 {
    hash: &'static digest::Algorithm,
    signature: AlgorithmIdentifier,
}

impl SignatureVerificationAlgorithm for P521 {
    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ECDSA_P521
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.signature
    }

    fn verify_signature(
        &self,
        point: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        verify_p521(point, self.hash, message, signature).map_err(|_| InvalidSignature)
    }
}

/// Whether a peer's certificate has an RSA key of more than 8192 bits. Verifying what it has signed takes long, so Go refuses
/// peers that send one, even as an intermediate.
pub fn has_oversized_key(certificate: &CertificateDer<'_>) -> bool {
    let Ok(parsed) = webpki::EndEntityCert::try_from(certificate) else { return false };
    // Only RSA has keys of a kilobyte. Beside the modulus there are an exponent and the names of the fields.
    parsed.subject_public_key_info().len() > RING_BITS as usize / 8 + 64
}
