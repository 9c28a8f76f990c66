//! From command-line options to transports: one server, several sets of connections.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use rustls::pki_types::CertificateDer;

use crate::config::User;
use crate::credentials::Credentials;
use crate::dial::{Carries, Dialer};
use crate::fence::Fence;
use crate::kubeconfig::{self, ConfigError, ConnectOptions};
use crate::pool::{Limits, Pool};
use crate::shadow::Shadow;
use crate::transport::Transport;

/// Transports to one API server. Nothing is dialled before the first request.
#[derive(Clone)]
pub struct Connection {
    server: String,
    origin: String,
    transport: Arc<dyn Transport>,
    /// What sends requests, unless nothing is to be written.
    pools: Option<Requests>,
    watch_transport: Arc<dyn Transport>,
    anonymous_transport: Arc<dyn Transport>,
    lease_transport: Option<Arc<dyn Transport>>,
    certificate_authority: Option<Arc<str>>,
}

/// The connections for requests: with the configured identity, and with none.
#[derive(Clone)]
struct Requests {
    own: Arc<Pool>,
    anonymous: Arc<Pool>,
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

    /// The same server for controllers under another lease: other connections for requests, on which nothing is sent while `fence`
    /// is closed either.
    pub fn under(&self, fence: &Fence) -> Self {
        let Some(Requests { own, anonymous }) = &self.pools else { return self.clone() };
        let pools = Requests { own: Arc::new(own.under(fence)), anonymous: Arc::new(anonymous.under(fence)) };
        Self {
            transport: pools.own.clone(),
            anonymous_transport: pools.anonymous.clone(),
            pools: Some(pools),
            ..self.clone()
        }
    }

    /// The same server, without sending any write to it.
    pub fn shadowed(self) -> Self {
        Self {
            transport: Shadow::over(self.transport),
            watch_transport: Shadow::over(self.watch_transport),
            anonymous_transport: Shadow::over(self.anonymous_transport),
            pools: None,
            ..self
        }
    }

    /// The URL of the server, for messages.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The `certificate-authority-data` of the kubeconfig, byte for byte; absent if there is none, as when a file is named instead.
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
    let dialer = |carries| {
        Dialer::new(server.clone(), config.tls_server_name.as_deref(), proxy.clone(), carries)
            .map(Arc::new)
            .map_err(unusable)
    };
    // The elector waits for nothing that runs on the runtime of the controllers, a look-up of the server's name included.
    let watches = dialer(Carries::Watches)?;
    let fenced = dialer(Carries::Requests(fence.iter().cloned().collect()))?;
    let leases = dialer(Carries::Requests(vec![]))?;

    let certificate_authority = config.inline_authority.as_deref().map(Arc::from);
    let mut anonymous = config.clone();
    anonymous.user = User::default();
    let elector = match fence {
        Some(_) => Some(Arc::new(Credentials::new(config.clone()).await.map_err(unusable)?)),
        None => None,
    };
    let credentials = Arc::new(Credentials::new(config).await.map_err(unusable)?);
    let anonymous = Arc::new(Credentials::new(anonymous).await.map_err(unusable)?);
    let pool = |dialer: &Arc<Dialer>, credentials: &Arc<Credentials>, limits| {
        Pool::new(dialer.clone(), credentials.clone(), limits).map(Arc::new).map_err(unusable)
    };
    let requests = Requests {
        own: pool(&fenced, &credentials, Limits::REQUESTS)?,
        anonymous: pool(&fenced, &anonymous, Limits::REQUESTS)?,
    };
    let lease_pool = elector.map(|own| pool(&leases, &own, Limits::REQUESTS)).transpose()?;
    Ok(Connection {
        transport: requests.own.clone(),
        watch_transport: pool(&watches, &credentials, Limits::WATCHES)?,
        anonymous_transport: requests.anonymous.clone(),
        pools: Some(requests),
        lease_transport: lease_pool.map(|pool| pool as Arc<dyn Transport>),
        server: watches.describe(),
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
