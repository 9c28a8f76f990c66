//! Certificates and keys: from PEM files, or self-signed.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    RootCertStore,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};

/// A certificate and key for TLS; `names` are its files, for errors.
pub(super) fn pair(
    cert: &[u8],
    key: &[u8],
    names: (&str, &str),
    provider: &CryptoProvider,
) -> Result<CertifiedKey, String> {
    let chain = certificates(cert, names.0)?;
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| format!("{} holds no usable private key: {error}", names.1))?;
    CertifiedKey::from_der(chain, key, provider).map_err(|error| {
        format!(
            "{} and {} cannot be served with: {error}; the key must be {}",
            names.0,
            names.1,
            flyball_tls::KEYS
        )
    })
}

/// All certificates of a PEM bundle; at least one.
pub(super) fn certificates(pem: &[u8], name: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(format!("{name} holds no certificate (PEM)")),
        Err(error) => Err(format!("{name} is not PEM: {error}")),
    }
}

pub(super) fn roots(pem: &[u8], name: &str) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(pem, name)? {
        store
            .add(certificate)
            .map_err(|error| format!("{name} holds a certificate that cannot be used: {error}"))?;
    }
    Ok(store)
}

/// SHA-256, as implemented by the TLS library.
pub(super) fn sha256(data: &[u8]) -> Option<Vec<u8>> {
    let suite = rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13()?;
    Some(suite.common.hash_provider.hash(data).as_ref().to_vec())
}

/// A self-signed pair for localhost, as (certificate, key) in PEM.
pub(super) fn self_signed() -> Result<(String, String), String> {
    let failed = |error: rcgen::Error| format!("cannot make a self-signed certificate: {error}");
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let key = rcgen::KeyPair::generate().map_err(failed)?;
    let mut parameters = rcgen::CertificateParams::new(names).map_err(failed)?;
    parameters.distinguished_name.push(rcgen::DnType::CommonName, "localhost");
    // A day of tolerance for clock skew, and a year, as in upstream.
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let day = |days: i64| {
        let date = today.saturating_add(jiff::Span::new().days(days));
        rcgen::date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    parameters.not_before = day(-1);
    parameters.not_after = day(365);
    let certificate = parameters.self_signed(&key).map_err(failed)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// The certificate and key files in a directory; created, self-signed, if they do not exist.
pub(super) fn kept_pair(dir: &Path, component: &str) -> Result<(PathBuf, PathBuf), String> {
    let cert_file = dir.join(format!("{component}.crt"));
    let key_file = dir.join(format!("{component}.key"));
    if cert_file.exists() && key_file.exists() {
        return Ok((cert_file, key_file));
    }
    let (cert, key) = self_signed()?;
    fs::create_dir_all(dir)
        .map_err(|error| format!("cannot make the directory {}: {error}", dir.display()))?;
    write_private(&key_file, &key)?;
    fs::write(&cert_file, &cert).map_err(|error| format!("cannot write {}: {error}", cert_file.display()))?;
    Ok((cert_file, key_file))
}

fn write_private(file: &Path, content: &str) -> Result<(), String> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let written = options.open(file).and_then(|mut open| open.write_all(content.as_bytes()));
    written.map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// A pair in memory.
pub(super) fn memory_pair(provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, String> {
    let (cert, key) = self_signed()?;
    let names = ("the self-signed certificate", "its key");
    pair(cert.as_bytes(), key.as_bytes(), names, provider).map(Arc::new)
}
