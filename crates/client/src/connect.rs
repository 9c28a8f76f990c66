//! From command-line options to transports: one server, several sets of connections.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use rustls::pki_types::CertificateDer;

use crate::config::User;
use crate::credentials::Credentials;
use crate::dial::Dialer;
use crate::fence::Fence;
use crate::kubeconfig::{self, ConfigError, ConnectOptions};
use crate::pool::{Limits, Pool};
use crate::shadow::Shadow;
use crate::transport::Transport;

/// Transports to one API server. Nothing is dialled before the first request.
#[derive(Clone)]
pub struct Connection {
    server: http::Uri,
    origin: String,
    transport: Arc<dyn Transport>,
    watch_transport: Arc<dyn Transport>,
    anonymous_transport: Arc<dyn Transport>,
    lease_transport: Option<Arc<dyn Transport>>,
    certificate_authority: Option<Arc<str>>,
}

impl Connection {
    /// For requests, with the configured identity.
    pub fn transport(&self) -> Arc<dyn Transport> {
        self.transport.clone()
    }

    /// For watches, with the configured identity, on separate connections, so that events do not delay writes, and no
    /// connection has more streams than servers allow.
    pub fn watch_transport(&self) -> Arc<dyn Transport> {
        self.watch_transport.clone()
    }

    /// For requests with their own bearer token. It has no client certificate, which would take precedence.
    pub fn anonymous_transport(&self) -> Arc<dyn Transport> {
        self.anonymous_transport.clone()
    }

    /// For leader election, if the connection was made [with a fence](connect_to_lead): separate connections and credentials,
    /// which the fence does not affect. They run on the runtime on which they are first used.
    pub fn lease_transport(&self) -> Option<Arc<dyn Transport>> {
        self.lease_transport.clone()
    }

    /// The same server, without sending any write to it.
    pub fn shadowed(self) -> Self {
        Self {
            transport: Shadow::over(self.transport),
            watch_transport: Shadow::over(self.watch_transport),
            anonymous_transport: Shadow::over(self.anonymous_transport),
            ..self
        }
    }

    pub fn server(&self) -> &http::Uri {
        &self.server
    }

    /// The CA certificates of the server, as PEM; absent if the system's are used.
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
    open(options, None).await
}

/// The same for a process with leader election: nothing is sent over the connections of controllers while `fence` is closed,
/// and the elector has its own connections.
pub async fn connect_to_lead(options: &ConnectOptions, fence: Fence) -> Result<Connection, ConfigError> {
    open(options, Some(fence)).await
}

async fn open(options: &ConnectOptions, fence: Option<Fence>) -> Result<Connection, ConfigError> {
    let kubeconfig::Loaded { config, origin, proxy } = kubeconfig::load(options)?;
    let unusable = |source| ConfigError::Credentials { origin: origin.clone(), source };
    let server = config.server.clone();
    let dialer = |fence: Option<Fence>| {
        Dialer::new(server.clone(), config.tls_server_name.as_deref(), proxy.clone(), fence)
            .map(Arc::new)
            .map_err(unusable)
    };
    let (open, fenced) = (dialer(None)?, dialer(fence.clone())?);

    let certificate_authority = config.trust.roots().map(|roots| pem(roots).into());
    let mut anonymous = config.clone();
    anonymous.user = User::default();
    let elector = match fence {
        Some(_) => Some(Arc::new(Credentials::new(config.clone()).await.map_err(unusable)?)),
        None => None,
    };
    let credentials = Arc::new(Credentials::new(config).await.map_err(unusable)?);
    let anonymous = Arc::new(Credentials::new(anonymous).await.map_err(unusable)?);
    let pool = |dialer: &Arc<Dialer>, credentials: &Arc<Credentials>, limits| {
        Pool::new(dialer.clone(), credentials.clone(), limits)
            .map(|pool| Arc::new(pool) as Arc<dyn Transport>)
            .map_err(unusable)
    };
    Ok(Connection {
        transport: pool(&fenced, &credentials, Limits::REQUESTS)?,
        watch_transport: pool(&open, &credentials, Limits::WATCHES)?,
        anonymous_transport: pool(&fenced, &anonymous, Limits::REQUESTS)?,
        lease_transport: elector.map(|own| pool(&open, &own, Limits::REQUESTS)).transpose()?,
        server,
        origin,
        certificate_authority,
    })
}

/// Certificates as PEM.
pub(crate) fn pem(certificates: &[CertificateDer<'_>]) -> String {
    let one = |der: &CertificateDer<'_>| {
        let text = base64::engine::general_purpose::STANDARD.encode(der.as_ref());
        let lines: Vec<&str> =
            (0..text.len()).step_by(64).map(|at| &text[at..text.len().min(at + 64)]).collect();
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
    };
    certificates.iter().map(one).collect()
}
