//! TLS: versions, cipher suites, and the certificate for each name. Client certificates are requested here, and clients have
//! to prove that they have the key; authentication verifies the issuer, as CAs may change.

use std::{path::PathBuf, sync::Arc};

use flyball_runtime::Fresh;
use rustls::{
    DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme, SupportedCipherSuite,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, UnixTime},
    server::{
        ClientHello, ResolvesServerCert,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};

use crate::{ServingOptions, certs, groups};

/// Every suite that upstream's flag accepts. Those without forward secrecy or authenticated encryption are accepted, so that
/// old command lines work, but never used.
pub const CIPHER_SUITES: &[&str] = &[
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];
const VERSIONS: [&str; 5] = ["", "VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"];

/// The problems in the TLS options, one sentence each.
pub fn tls_problems(options: &ServingOptions) -> Vec<String> {
    let mut problems = vec![];
    if !VERSIONS.contains(&options.min_version.as_str()) {
        problems.push(format!(
            "{} must be one of {}, not {:?}",
            options.flag("tls-min-version"),
            VERSIONS[1..].join(", "),
            options.min_version
        ));
    }
    for name in options.cipher_suites.iter().filter(|name| !CIPHER_SUITES.contains(&name.as_str())) {
        problems.push(format!("{}: there is no suite {name:?}", options.flag("tls-cipher-suites")));
    }
    problems.extend(groups::problems(options));
    if problems.is_empty()
        && let Err(problem) = suites(options)
    {
        problems.push(problem);
    }
    if options.cert_file.is_empty() != options.key_file.is_empty() {
        let (certificate, key) = (options.flag("tls-cert-file"), options.flag("tls-private-key-file"));
        problems.push(format!("{certificate} and {key} must be given together"));
    }
    problems
}

/// What was given and has no effect here, one sentence each.
pub fn tls_notices(options: &ServingOptions) -> Vec<String> {
    let mut notices = vec![];
    if matches!(options.min_version.as_str(), "VersionTLS10" | "VersionTLS11") {
        let flag = options.flag("tls-min-version");
        notices
            .push(format!("{flag}={} means VersionTLS12 here: there is no older TLS", options.min_version));
    }
    let usable: Vec<String> = ring::ALL_CIPHER_SUITES.iter().map(name).collect();
    let is_unusable = |wanted: &&str| !usable.iter().any(|name| is_called(name, wanted));
    let suites: Vec<&str> = options.cipher_suites.iter().map(String::as_str).filter(is_unusable).collect();
    let lists = [
        ("tls-cipher-suites", "suites", suites),
        ("tls-curve-preferences", "groups", groups::unusable(options)),
    ];
    for (flag, what, unusable) in lists.into_iter().filter(|(.., unusable)| !unusable.is_empty()) {
        notices.push(format!(
            "{} names {what} that are never used here: {}",
            options.flag(flag),
            unusable.join(", ")
        ));
    }
    notices
}

/// The IANA name of a suite.
fn name(suite: &SupportedCipherSuite) -> String {
    suite.suite().as_str().map_or_else(String::new, |name| name.replace("TLS13_", "TLS_"))
}

/// Whether a suite of this name is meant. Go leaves `_SHA256` out of some names.
fn is_called(name: &str, wanted: &str) -> bool {
    name.strip_prefix(wanted).is_some_and(|rest| matches!(rest, "" | "_SHA256"))
}

/// The suites to offer: all of TLS 1.3, and of TLS 1.2 those allowed.
fn suites(options: &ServingOptions) -> Result<Vec<SupportedCipherSuite>, String> {
    let all = ring::ALL_CIPHER_SUITES;
    if options.cipher_suites.is_empty() {
        return Ok(all.to_vec());
    }
    let wanted = |suite: &SupportedCipherSuite| {
        let name = name(suite);
        options.cipher_suites.iter().any(|wanted| is_called(&name, wanted))
    };
    let chosen: Vec<_> =
        all.iter().copied().filter(|suite| suite.tls13().is_some() || wanted(suite)).collect();
    if !all.iter().any(wanted) {
        let names: Vec<String> = all.iter().map(name).collect();
        return Err(format!(
            "{}: none of those given can be used; usable are {}",
            options.flag("tls-cipher-suites"),
            names.join(", ")
        ));
    }
    Ok(chosen)
}

/// The TLS configuration of the server, with certificates that are read again when they change.
pub(super) fn server_config(options: &ServingOptions) -> Result<ServerConfig, String> {
    if let Some(problem) = tls_problems(options).into_iter().next() {
        return Err(problem);
    }
    let provider = CryptoProvider {
        cipher_suites: suites(options)?,
        kx_groups: groups::allowed(options),
        ..flyball_tls::provider()
    };
    let provider = Arc::new(provider);
    let versions: &[&rustls::SupportedProtocolVersion] =
        if options.min_version == "VersionTLS13" { &[&TLS13] } else { &[&TLS13, &TLS12] };
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .map_err(|error| format!("TLS cannot be set up: {error}"))?
        .with_client_cert_verifier(Arc::new(AnyHolder { provider: provider.clone() }))
        .with_cert_resolver(Arc::new(Certificates::load(options, &provider)?));
    let protocols: &[&[u8]] = if options.disable_http2 { &[b"http/1.1"] } else { &[b"h2", b"http/1.1"] };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

struct Certificates {
    main: Source,
    named: Vec<Named>,
}

enum Source {
    Memory(Arc<CertifiedKey>),
    Files(Fresh<Arc<CertifiedKey>>),
}

struct Named {
    /// The server names it is used for; empty: those in the certificate.
    domains: Vec<String>,
    source: Source,
}

impl Source {
    fn files(cert: &str, key: &str, provider: &Arc<CryptoProvider>) -> Result<Self, String> {
        let (names, provider) = ((cert.to_owned(), key.to_owned()), provider.clone());
        let parse = move |contents: &[Vec<u8>]| match contents {
            [cert, key] => certs::pair(cert, key, (&names.0, &names.1), &provider).map(Arc::new),
            _ => Err("a certificate and a key are needed".to_owned()),
        };
        Fresh::new(vec![PathBuf::from(cert), PathBuf::from(key)], parse).map(Source::Files)
    }

    fn get(&self) -> Arc<CertifiedKey> {
        match self {
            Source::Memory(pair) => pair.clone(),
            Source::Files(files) => Arc::clone(&files.get()),
        }
    }
}

impl Certificates {
    fn load(options: &ServingOptions, provider: &Arc<CryptoProvider>) -> Result<Self, String> {
        let main = if !options.cert_file.is_empty() {
            Source::files(&options.cert_file, &options.key_file, provider)?
        } else if !options.cert_dir.is_empty() {
            let (cert, key) = certs::kept_pair(options.cert_dir.as_ref(), options.pair_name)?;
            Source::files(&cert.to_string_lossy(), &key.to_string_lossy(), provider)?
        } else {
            Source::Memory(certs::memory_pair(provider)?)
        };
        let named =
            options.sni_cert_keys.iter().map(|text| Named::load(text, provider)).collect::<Result<_, _>>()?;
        Ok(Self { main, named })
    }

    fn for_name(&self, name: Option<&str>) -> Arc<CertifiedKey> {
        let named = name.and_then(|name| {
            self.named.iter().find_map(|named| {
                let pair = named.source.get();
                named.answers_for(name, &pair).then_some(pair)
            })
        });
        named.unwrap_or_else(|| self.main.get())
    }
}

impl Named {
    /// `certificate,key[:domain,…]`
    fn load(text: &str, provider: &Arc<CryptoProvider>) -> Result<Self, String> {
        let (files, domains) = text.split_once(':').unwrap_or((text, ""));
        let (cert, key) = files
            .split_once(',')
            .ok_or_else(|| format!("--tls-sni-cert-key: {text:?} is not of the form certificate,key"))?;
        let domains = domains.split(',').map(|name| name.trim().to_ascii_lowercase());
        Ok(Self {
            domains: domains.filter(|name| !name.is_empty()).collect(),
            source: Source::files(cert.trim(), key.trim(), provider)?,
        })
    }

    fn answers_for(&self, name: &str, pair: &CertifiedKey) -> bool {
        if self.domains.is_empty() {
            let name = rustls::pki_types::ServerName::try_from(name);
            let leaf = pair
                .end_entity_cert()
                .ok()
                .and_then(|der| rustls::server::ParsedCertificate::try_from(der).ok());
            return matches!((name, leaf), (Ok(name), Some(leaf)) if rustls::client::verify_server_name(&leaf, &name).is_ok());
        }
        let parent = name.split_once('.').map(|(_, parent)| parent);
        self.domains
            .iter()
            .any(|domain| domain == name || domain.strip_prefix("*.").is_some_and(|d| Some(d) == parent))
    }
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Certificates({} by name)", self.named.len())
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.for_name(hello.server_name()))
    }
}

/// Accepts every client that has the key of its certificate, and clients without a certificate.
#[derive(Debug)]
struct AnyHolder {
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for AnyHolder {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        if std::iter::once(end_entity).chain(intermediates).any(flyball_tls::has_oversized_key) {
            let problem = "the client sent a certificate with an RSA key of more than 8192 bits";
            return Err(rustls::Error::General(problem.to_owned()));
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
