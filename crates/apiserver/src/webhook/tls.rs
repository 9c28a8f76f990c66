//! TLS towards webhooks and other servers that requests go on to: the authorities of their configuration, or those that the system trusts.

use std::sync::{Arc, OnceLock};

use flyball_tls::Unverified;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WantsClientCert, WebPkiServerVerifier};
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use x509_parser::prelude::GeneralName;

use crate::pki::Pair;

/// How to connect to one webhook securely. The authorities are parsed at the first connection, and once.
#[derive(Debug)]
pub(crate) struct Tls {
    trust: Trust,
    /// The certificate that is presented to the other server.
    client: Option<Pair>,
    config: OnceLock<Result<Arc<ClientConfig>, String>>,
}

/// Which servers are trusted.
#[derive(Debug)]
enum Trust {
    /// Those that the authorities in a PEM bundle have signed; if it is empty, those that the system trusts.
    Authorities(Vec<u8>),
    /// Any, as with `insecureSkipTLSVerify`.
    Anyone,
}

impl Tls {
    pub(crate) fn new(authorities: Vec<u8>) -> Self {
        Self { trust: Trust::Authorities(authorities), client: None, config: OnceLock::new() }
    }

    /// Trusts every server.
    pub(crate) fn unverified() -> Self {
        Self { trust: Trust::Anyone, client: None, config: OnceLock::new() }
    }

    /// Presents a certificate to the other server.
    pub(crate) fn presenting(self, client: Option<Pair>) -> Self {
        Self { client, ..self }
    }

    /// Makes a connection secure; the server must be `name`. The error is the one that Go reports.
    pub(crate) async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        name: &str,
    ) -> Result<TlsStream<S>, String> {
        let config =
            self.config.get_or_init(|| config(&self.trust, self.client.as_ref()).map(Arc::new)).clone()?;
        let server = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
        let secure = TlsConnector::from(config).connect(server, stream).await;
        secure.map_err(|error| explained(&error, name))
    }
}

fn config(trust: &Trust, client: Option<&Pair>) -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(flyball_tls::provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let authorities = match trust {
        Trust::Authorities(authorities) => authorities,
        Trust::Anyone => {
            return presenting(
                builder.dangerous().with_custom_certificate_verifier(Unverified::verifier()),
                client,
            );
        }
    };
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
    if roots.is_empty() {
        return presenting(builder.with_root_certificates(roots), client);
    }
    let verifier = Arc::new(Verifier::new(roots, trusted)?);
    presenting(builder.dangerous().with_custom_certificate_verifier(verifier), client)
}

fn presenting(
    builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    client: Option<&Pair>,
) -> Result<ClientConfig, String> {
    let Some(client) = client else { return Ok(builder.with_no_client_auth()) };
    let certs: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(client.cert.as_bytes()).collect();
    let certs = certs.map_err(|error| format!("the client certificate: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(client.key.as_bytes());
    let key = key.map_err(|error| format!("the key of the client certificate: {error}"))?;
    builder.with_client_auth_cert(certs, key).map_err(|error| error.to_string())
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
            // Go speaks of the names of the same sort.
            let is_address = name.parse::<std::net::IpAddr>().is_ok();
            let names: Vec<&str> = presented
                .iter()
                .filter(|presented| presented.starts_with("IpAddress") == is_address)
                .map(|name| {
                    name.split_once('(').map_or(name.as_str(), |(_, rest)| rest.trim_end_matches(')'))
                })
                .map(|name| name.trim_matches('"'))
                .collect();
            match names[..] {
                [] if is_address => {
                    format!("cannot validate certificate for {name} because it doesn't contain any IP SANs")
                }
                [] => format!("certificate is not valid for any names, but wanted to match {name}"),
                _ => format!("certificate is valid for {}, not {name}", names.join(", ")),
            }
        }
        other => other.to_string(),
    };
    format!("tls: failed to verify certificate: x509: {why}")
}

/// As the verifier of webpki; in addition, a certificate that is itself trusted may be that of the server, be it an
/// authority's or one whose authority is not known. Go allows both, and controller-runtime's envtest puts the serving
/// certificate of a webhook into its `caBundle`.
#[derive(Debug)]
struct Verifier {
    inner: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl Verifier {
    fn new(roots: RootCertStore, trusted: Vec<CertificateDer<'static>>) -> Result<Self, String> {
        let provider = Arc::new(flyball_tls::provider());
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Self { inner: inner.map_err(|error| error.to_string())?, trusted })
    }
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
            Err(rustls::Error::InvalidCertificate(
                CertificateError::Other(_) | CertificateError::UnknownIssuer,
            )) if is_trusted() => checked(shown, name, now).map(|()| ServerCertVerified::assertion()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::Ca;

    #[test]
    fn a_serving_certificate_may_be_its_own_trust_anchor() {
        let ca = Ca::new("somebody").unwrap();
        let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let one = ca.server(&["127.0.0.1".to_owned()]).unwrap().cert;
        let other = ca.server(&["127.0.0.1".to_owned()]).unwrap().cert;
        #[rustfmt::skip]
        let table = [
            // caBundle       address      is trusted
            (&ca.pair.cert,   "127.0.0.1", true),
            (&one,            "127.0.0.1", true),
            (&one,            "127.0.0.2", false),
            (&other,          "127.0.0.1", false),
        ];
        for (bundle, address, trusted) in table {
            let mut roots = RootCertStore::empty();
            roots.add(der(bundle)).unwrap();
            let verifier = Verifier::new(roots, vec![der(bundle)]).unwrap();
            let name = ServerName::try_from(address).unwrap();
            let verified = verifier.verify_server_cert(&der(&one), &[], &name, &[], UnixTime::now());
            assert_eq!(verified.is_ok(), trusted, "{address}: {verified:?}");
        }
    }
}
