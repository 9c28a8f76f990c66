//! TLS towards webhooks: the authorities of their configuration, or those that the system trusts.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use x509_parser::prelude::GeneralName;

/// Makes a connection secure; the server must be `name`. Says why that is not possible.
pub(super) async fn handshake(
    stream: TcpStream,
    name: &str,
    authorities: &[u8],
) -> Result<TlsStream<TcpStream>, String> {
    let config = config(authorities)?;
    let server = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
    let secure = TlsConnector::from(Arc::new(config)).connect(server, stream).await;
    secure.map_err(|error| explained(&error, name))
}

fn config(authorities: &[u8]) -> Result<ClientConfig, String> {
    let mut trusted: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(authorities).filter_map(Result::ok).collect();
    if trusted.is_empty() && !authorities.is_empty() {
        return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
    }
    if authorities.is_empty() {
        trusted = rustls_native_certs::load_native_certs().certs;
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(trusted.iter().cloned());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    if roots.is_empty() {
        return Ok(builder.with_root_certificates(roots).with_no_client_auth());
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let verifier = Verifier { inner: verifier.map_err(|error| error.to_string())?, trusted };
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

/// What Go says about the same failure.
fn explained(error: &std::io::Error, name: &str) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let why = match tls {
        Some(rustls::Error::InvalidCertificate(why)) => why,
        Some(other) => return format!("tls: {other}"),
        None => return "EOF".to_owned(),
    };
    let why = match why {
        CertificateError::UnknownIssuer => "certificate signed by unknown authority".to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        CertificateError::NotValidForName => format!("certificate is not valid for {name}"),
        CertificateError::NotValidForNameContext { presented, .. } => {
            let names: Vec<&str> = presented
                .iter()
                .map(|name| {
                    name.split_once('(').map_or(name.as_str(), |(_, rest)| rest.trim_end_matches(')'))
                })
                .map(|name| name.trim_matches('"'))
                .collect();
            match names[..] {
                [] => format!("certificate is not valid for any names, but wanted to match {name}"),
                _ => format!("certificate is valid for {}, not {name}", names.join(", ")),
            }
        }
        other => other.to_string(),
    };
    format!("tls: failed to verify certificate: x509: {why}")
}

/// As the verifier of webpki; in addition, a certificate that is itself trusted may be that of the server, although it is
/// an authority's. Go allows that, and such certificates are common in tests.
#[derive(Debug)]
struct Verifier {
    inner: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.inner.verify_server_cert(shown, others, name, ocsp, now);
        let is_trusted = || self.trusted.iter().any(|trusted| trusted.as_ref() == shown.as_ref());
        match verified {
            Err(rustls::Error::InvalidCertificate(CertificateError::Other(_))) if is_trusted() => {
                checked(shown, name, now).map(|()| ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Checks time and name of a certificate that is trusted.
fn checked(cert: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> Result<(), rustls::Error> {
    let refuse = |why: CertificateError| Err(rustls::Error::InvalidCertificate(why));
    let Ok((_, cert)) = x509_parser::parse_x509_certificate(cert) else {
        return refuse(CertificateError::BadEncoding);
    };
    let validity = cert.validity();
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if seconds < validity.not_before.timestamp() || seconds > validity.not_after.timestamp() {
        return refuse(CertificateError::Expired);
    }
    let names = cert.subject_alternative_name().ok().flatten();
    let names = names.map(|names| names.value.general_names.as_slice()).unwrap_or_default();
    let is_it = |alternative: &GeneralName<'_>| match (alternative, name) {
        (GeneralName::DNSName(known), ServerName::DnsName(wanted)) => {
            let wanted = wanted.as_ref();
            let rest = wanted.split_once('.').map_or("", |(_, rest)| rest);
            known.eq_ignore_ascii_case(wanted)
                || known.strip_prefix("*.").is_some_and(|known| known.eq_ignore_ascii_case(rest))
        }
        (GeneralName::IPAddress(known), ServerName::IpAddress(wanted)) => {
            match std::net::IpAddr::from(*wanted) {
                std::net::IpAddr::V4(wanted) => **known == wanted.octets(),
                std::net::IpAddr::V6(wanted) => **known == wanted.octets(),
            }
        }
        _ => false,
    };
    if names.iter().any(is_it) { Ok(()) } else { refuse(CertificateError::NotValidForName) }
}
