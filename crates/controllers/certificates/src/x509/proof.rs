//! Verifies the signature of a request by its public key, as proof that the requester has the private key.

use flyball_keys::{Padding, rsa};
use p256::ecdsa::signature::hazmat::PrehashVerifier as _;
use ring::digest;
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::x509::AlgorithmIdentifier;

const WRONG: &str = "it was made with another key, or the request was changed";
const UNKNOWN: &str = "its algorithm is not one of RSA, ECDSA on P-256, P-384 or P-521, and Ed25519";

/// Verifies the request's own signature.
pub(super) fn check(request: &X509CertificationRequest<'_>) -> Result<(), &'static str> {
    let info = &request.certification_request_info;
    let (key, message) = (&*info.subject_pki.subject_public_key.data, info.raw);
    let mark = &*request.signature_value.data;
    let algorithm = numbers(&request.signature_algorithm);
    let rsa = |how: &'static dyn VerificationAlgorithm, padding, hash| {
        // A signature is as long as its key, and `ring` takes 8192 bits.
        if mark.len() > 1024 {
            let key = rsa::PublicKey::from_der(key).map_err(|_| WRONG)?;
            return key.verify(padding, hash, message, mark).map_err(|_| WRONG);
        }
        UnparsedPublicKey::new(how, key).verify(message, mark).map_err(|_| WRONG)
    };
    let pkcs1 = |how, hash| rsa(how, Padding::Pkcs1, hash);
    match algorithm.as_slice() {
        [1, 2, 840, 113549, 1, 1, 5] => {
            pkcs1(&signature::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY, &digest::SHA1_FOR_LEGACY_USE_ONLY)
        }
        [1, 2, 840, 113549, 1, 1, 11] => {
            pkcs1(&signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY, &digest::SHA256)
        }
        [1, 2, 840, 113549, 1, 1, 12] => pkcs1(&signature::RSA_PKCS1_2048_8192_SHA384, &digest::SHA384),
        [1, 2, 840, 113549, 1, 1, 13] => {
            pkcs1(&signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY, &digest::SHA512)
        }
        [1, 2, 840, 113549, 1, 1, 10] => {
            pss(&request.signature_algorithm).map_or(Err(UNKNOWN), |(how, hash)| rsa(how, Padding::Pss, hash))
        }
        [1, 2, 840, 10045, 4, 1] => ecdsa(request, &digest::SHA1_FOR_LEGACY_USE_ONLY),
        [1, 2, 840, 10045, 4, 3, 2] => ecdsa(request, &digest::SHA256),
        [1, 2, 840, 10045, 4, 3, 3] => ecdsa(request, &digest::SHA384),
        [1, 2, 840, 10045, 4, 3, 4] => ecdsa(request, &digest::SHA512),
        [1, 3, 101, 112] => {
            UnparsedPublicKey::new(&signature::ED25519, key).verify(message, mark).map_err(|_| WRONG)
        }
        _ => Err(UNKNOWN),
    }
}

fn numbers(algorithm: &AlgorithmIdentifier<'_>) -> Vec<u64> {
    algorithm.algorithm.iter().map(Iterator::collect).unwrap_or_default()
}

/// RSA-PSS names its hash in its parameters, of which the first is the hash.
fn pss(
    algorithm: &AlgorithmIdentifier<'_>,
) -> Option<(&'static dyn VerificationAlgorithm, &'static digest::Algorithm)> {
    use x509_parser::signature_algorithm::SignatureAlgorithm;
    let SignatureAlgorithm::RSASSA_PSS(parameters) = SignatureAlgorithm::try_from(algorithm).ok()? else {
        return None;
    };
    let hash: Vec<u64> = parameters.hash_algorithm_oid().iter()?.collect();
    match hash.as_slice() {
        [2, 16, 840, 1, 101, 3, 4, 2, 1] => Some((&signature::RSA_PSS_2048_8192_SHA256, &digest::SHA256)),
        [2, 16, 840, 1, 101, 3, 4, 2, 2] => Some((&signature::RSA_PSS_2048_8192_SHA384, &digest::SHA384)),
        [2, 16, 840, 1, 101, 3, 4, 2, 3] => Some((&signature::RSA_PSS_2048_8192_SHA512, &digest::SHA512)),
        _ => None,
    }
}

fn ecdsa(
    request: &X509CertificationRequest<'_>,
    hash: &'static digest::Algorithm,
) -> Result<(), &'static str> {
    let info = &request.certification_request_info;
    let (point, mark) = (&*info.subject_pki.subject_public_key.data, &*request.signature_value.data);
    let hashed = digest::digest(hash, info.raw);
    let parameters = info.subject_pki.algorithm.parameters.as_ref();
    let curve = parameters.and_then(|curve| curve.as_oid().ok()).ok_or(UNKNOWN)?;
    let curve: Vec<u64> = curve.iter().map(Iterator::collect).unwrap_or_default();
    macro_rules! verify {
        ($curve:ident) => {{
            let key = $curve::ecdsa::VerifyingKey::from_sec1_bytes(point).map_err(|_| WRONG)?;
            let mark = $curve::ecdsa::Signature::from_der(mark).map_err(|_| WRONG)?;
            key.verify_prehash(hashed.as_ref(), &mark).map_err(|_| WRONG)
        }};
    }
    match curve.as_slice() {
        [1, 2, 840, 10045, 3, 1, 7] => verify!(p256),
        [1, 3, 132, 0, 34] => verify!(p384),
        [1, 3, 132, 0, 35] => verify!(p521),
        _ => Err(UNKNOWN),
    }
}
