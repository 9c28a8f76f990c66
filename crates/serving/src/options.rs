//! The options of the HTTPS server, as set by flags.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use crate::COMPONENT;

/// Where and with which certificates to listen.
#[derive(Debug, Clone, PartialEq)]
pub struct ServingOptions {
    /// What the names of its flags begin with, after the dashes.
    pub flag_prefix: &'static str,
    pub bind_address: IpAddr,
    /// Port to listen on; 0 means: do not serve.
    pub port: i32,
    /// Where a self-signed pair is kept; empty keeps it in memory.
    pub cert_dir: String,
    /// The names of that pair's files, without extension.
    pub pair_name: &'static str,
    /// Serving certificate (PEM, leaf first).
    pub cert_file: String,
    /// Private key of the serving certificate.
    pub key_file: String,
    /// Further pairs by server name: `cert,key[:domain,…]`.
    pub sni_cert_keys: Vec<String>,
    /// IANA names of the TLS 1.2 suites allowed; empty allows all safe ones.
    pub cipher_suites: Vec<String>,
    /// The key exchange groups that are allowed, by number; empty allows all.
    pub curve_preferences: Vec<i32>,
    /// `VersionTLS12` or `VersionTLS13`; empty means 1.2.
    pub min_version: String,
    /// Speak HTTP/1.1 only.
    pub disable_http2: bool,
    /// Streams per HTTP/2 connection; 0 means 100.
    pub http2_max_streams: i32,
    /// Bind even if a wildcard address has the port (SO_REUSEADDR).
    pub permit_address_sharing: bool,
    /// Let several processes bind the same port (SO_REUSEPORT).
    pub permit_port_sharing: bool,
}

impl Default for ServingOptions {
    fn default() -> Self {
        Self {
            flag_prefix: "",
            bind_address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            port: 10257,
            cert_dir: String::new(),
            pair_name: COMPONENT,
            cert_file: String::new(),
            key_file: String::new(),
            sni_cert_keys: vec![],
            cipher_suites: vec![],
            curve_preferences: vec![],
            min_version: String::new(),
            disable_http2: false,
            http2_max_streams: 0,
            permit_address_sharing: false,
            permit_port_sharing: false,
        }
    }
}

impl ServingOptions {
    /// The name of one of its flags, for messages.
    pub(super) fn flag(&self, name: &str) -> String {
        format!("--{}{name}", self.flag_prefix)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct AuthenticationOptions {
    /// Credentials for TokenReviews and for reading the cluster's client CA; empty: the pod's own, if any.
    pub kubeconfig: String,
    /// Do not look up the cluster's client CA.
    pub skip_lookup: bool,
    /// Continue if that look-up fails.
    pub tolerate_lookup_failure: bool,
    /// How long a token's review is cached.
    pub token_cache_ttl: Duration,
    /// CA bundle of client certificates.
    pub client_ca_file: String,
    /// CA bundle of front proxies.
    pub requestheader_client_ca_file: String,
    /// Common names a front proxy may have; empty: any.
    pub requestheader_allowed_names: Vec<String>,
    /// Headers with the user name.
    pub requestheader_username_headers: Vec<String>,
    /// Headers with the user's UID.
    pub requestheader_uid_headers: Vec<String>,
    pub requestheader_group_headers: Vec<String>,
    /// Prefixes of headers with extra attributes.
    pub requestheader_extra_headers_prefix: Vec<String>,
    /// Client certificates may hold their user's UID (feature gate AllowParsingUserUIDFromCertAuth).
    pub uid_from_certificate: bool,
}

impl Default for AuthenticationOptions {
    fn default() -> Self {
        Self {
            kubeconfig: String::new(),
            skip_lookup: false,
            tolerate_lookup_failure: false,
            token_cache_ttl: Duration::from_secs(10),
            client_ca_file: String::new(),
            requestheader_client_ca_file: String::new(),
            requestheader_allowed_names: vec![],
            requestheader_username_headers: vec!["x-remote-user".to_owned()],
            requestheader_uid_headers: vec![],
            requestheader_group_headers: vec!["x-remote-group".to_owned()],
            requestheader_extra_headers_prefix: vec!["x-remote-extra-".to_owned()],
            uid_from_certificate: true,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct AuthorizationOptions {
    /// Credentials for SubjectAccessReviews; empty: the pod's own, if any.
    pub kubeconfig: String,
    /// Paths open to all; an entry may end in `/*`.
    pub always_allow_paths: Vec<String>,
    /// How long an approval is cached.
    pub allow_cache_ttl: Duration,
    /// How long a denial is cached.
    pub deny_cache_ttl: Duration,
}

impl Default for AuthorizationOptions {
    fn default() -> Self {
        Self {
            kubeconfig: String::new(),
            always_allow_paths: ["/healthz", "/readyz", "/livez"].map(str::to_owned).to_vec(),
            allow_cache_ttl: Duration::from_secs(10),
            deny_cache_ttl: Duration::from_secs(10),
        }
    }
}
