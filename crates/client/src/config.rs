//! Where the API server is, how to recognise it, and who we are there: what a kubeconfig, a pod's files or `--master` come down to.

use std::fmt;
use std::path::PathBuf;

use rustls::pki_types::CertificateDer;

#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) server: http::Uri,
    /// The name in the server's certificate, if it is not the host of `server`.
    pub(crate) tls_server_name: Option<String>,
    pub(crate) trust: Trust,
    /// `certificate-authority-data`, from base64 only: comments and the order of the lines are kept.
    pub(crate) inline_authority: Option<String>,
    pub(crate) user: User,
}

impl Config {
    /// A server that the system's certificates vouch for, and no identity.
    pub(crate) fn new(server: http::Uri) -> Self {
        Self {
            server,
            tls_server_name: None,
            trust: Trust::System,
            inline_authority: None,
            user: User::default(),
        }
    }
}

/// Who vouches for the server's certificate.
#[derive(Debug, Clone)]
pub(crate) enum Trust {
    /// The certificate authorities of the operating system.
    System,
    Roots(Vec<CertificateDer<'static>>),
    /// A file that may be replaced while we run, and what it held at first.
    File(PathBuf, Vec<CertificateDer<'static>>),
    /// `insecure-skip-tls-verify`.
    Anyone,
}

impl Trust {
    pub(crate) fn roots(&self) -> Option<&[CertificateDer<'static>]> {
        match self {
            Self::Roots(roots) | Self::File(_, roots) => Some(roots),
            Self::System | Self::Anyone => None,
        }
    }
}

/// Our identity. At most one of `token_file`, `token`, `basic` and `exec` is used, in this order.
#[derive(Clone, Default)]
pub(crate) struct User {
    pub(crate) certificate: Option<CertificateAndKey>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) token: Option<String>,
    /// A user's name and password.
    pub(crate) basic: Option<(String, String)>,
    pub(crate) exec: Option<Exec>,
    pub(crate) impersonate: Option<Impersonate>,
}

/// Secrets stay out of logs.
impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").finish_non_exhaustive()
    }
}

#[derive(Clone)]
pub(crate) struct CertificateAndKey {
    pub(crate) certificate: Pem,
    pub(crate) key: Pem,
}

/// PEM in the configuration itself, or in a file that may be replaced while we run.
#[derive(Clone)]
pub(crate) enum Pem {
    Inline(Vec<u8>),
    File(PathBuf),
}

impl Pem {
    pub(crate) fn read(&self) -> std::io::Result<Vec<u8>> {
        match self {
            Self::Inline(pem) => Ok(pem.clone()),
            Self::File(path) => std::fs::read(path),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Impersonate {
    pub(crate) user: String,
    pub(crate) uid: Option<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: Vec<(String, Vec<String>)>,
}

/// A credential plugin: a program that prints a token or a client certificate.
#[derive(Clone)]
pub(crate) struct Exec {
    pub(crate) command: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// `client.authentication.k8s.io/v1` or `…/v1beta1`.
    pub(crate) api_version: String,
    pub(crate) interactive: Interactive,
    /// What to do if the program is missing.
    pub(crate) install_hint: Option<String>,
    /// `spec.cluster` of the ExecCredential that the program gets, if it asked for it.
    pub(crate) cluster: Option<serde_json::Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interactive {
    Never,
    IfAvailable,
    Always,
}
