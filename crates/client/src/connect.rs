//! From command-line options to transports: one server, four sets of connections.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use kube::config::AuthInfo;

use crate::credentials::Credentials;
use crate::dial::Dialer;
use crate::kubeconfig::{self, ConfigError, ConnectOptions};
use crate::pool::{Limits, Pool};
use crate::shadow::Shadow;
use crate::transport::Transport;

/// The ways to one API server. Nothing is dialled before the first request.
#[derive(Clone)]
pub struct Connection {
    server: http::Uri,
    origin: String,
    transport: Arc<dyn Transport>,
    watch_transport: Arc<dyn Transport>,
    anonymous_transport: Arc<dyn Transport>,
    certificate_authority: Option<Arc<str>>,
}

impl Connection {
    /// For requests, with the configured identity.
    pub fn transport(&self) -> Arc<dyn Transport> {
        self.transport.clone()
    }

    /// For watches, with the configured identity, on connections of their own: a flood of events never holds up a
    /// write, and no connection carries more streams than servers allow.
    pub fn watch_transport(&self) -> Arc<dyn Transport> {
        self.watch_transport.clone()
    }

    /// For requests that bring their own bearer token. A client certificate would beat it, so there is none.
    pub fn anonymous_transport(&self) -> Arc<dyn Transport> {
        self.anonymous_transport.clone()
    }

    /// The same server, with every write kept from it.
    pub fn shadowed(self) -> Self {
        Self {
            transport: Shadow::over(self.transport),
            watch_transport: Shadow::over(self.watch_transport),
            anonymous_transport: Shadow::over(self.anonymous_transport),
            ..self
        }
    }

    /// The server's URL.
    pub fn server(&self) -> &http::Uri {
        &self.server
    }

    /// The certificates by which the server is trusted, as PEM; absent when the system's are.
    pub fn certificate_authority(&self) -> Option<Arc<str>> {
        self.certificate_authority.clone()
    }

    /// Where the configuration came from, for messages.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("server", &self.server)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

/// Reads the configuration and the credentials it names (running a credential plugin, if it names one).
pub async fn connect(options: &ConnectOptions) -> Result<Connection, ConfigError> {
    let kubeconfig::Loaded { config, origin, proxy } = kubeconfig::load(options)?;
    let unusable = |source| ConfigError::Credentials { origin: origin.clone(), source };
    let server = config.cluster_url.clone();
    let dialer =
        Arc::new(Dialer::new(server.clone(), config.tls_server_name.as_deref(), proxy).map_err(unusable)?);

    let certificate_authority = config.root_cert.as_deref().map(|chain| pem(chain).into());
    let mut nobody = config.clone();
    nobody.auth_info = AuthInfo::default();
    let credentials = Arc::new(Credentials::new(config).await.map_err(unusable)?);
    let nobody = Arc::new(Credentials::new(nobody).await.map_err(unusable)?);
    let pool = |credentials: &Arc<Credentials>, limits| {
        Pool::new(dialer.clone(), credentials.clone(), limits)
            .map(|pool| Arc::new(pool) as Arc<dyn Transport>)
    };
    Ok(Connection {
        server,
        transport: pool(&credentials, Limits::REQUESTS).map_err(unusable)?,
        watch_transport: pool(&credentials, Limits::WATCHES).map_err(unusable)?,
        anonymous_transport: pool(&nobody, Limits::REQUESTS).map_err(unusable)?,
        origin,
        certificate_authority,
    })
}

/// Certificates in the form that files have.
fn pem(certificates: &[Vec<u8>]) -> String {
    let one = |der: &Vec<u8>| {
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        let lines: Vec<&str> =
            (0..text.len()).step_by(64).map(|at| &text[at..text.len().min(at + 64)]).collect();
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
    };
    certificates.iter().map(one).collect()
}
