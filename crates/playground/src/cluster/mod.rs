//! The whole cluster in this process: API server, controllers, scheduler, nodes, and clients for it.

mod door;
mod identity;
mod kubelet;
mod listen;
mod manager;
mod pages;
mod transport;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flyball_apiserver::registry::User;
use flyball_apiserver::store::OpenError;
use flyball_apiserver::{ApiServer, pki};
use flyball_cache::{InformerOptions, Informers};
use flyball_client::{Client, ClientOptions, Transport};
use flyball_runtime::decisions::DecisionLog;
use flyball_runtime::events::Recorder;
use flyball_runtime::{Clock, Signal, SignalSender};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

pub use door::{Door, Gone, Writes};
pub use identity::Credentials;
pub use listen::Port;

use crate::writer::Writer;
use crate::{disks, nodes, scheduler};

/// The size of the audit log, which nothing reads here.
const AUDITED: usize = 1000;
/// Time for all parts to stop.
const PATIENCE: Duration = Duration::from_secs(5);
const ADMIN: &str = "flyball-admin";
/// The user that the simulated nodes are.
pub const KUBELETS: &str = "flyball:kubelets";

/// Options of a cluster.
#[derive(Debug, Clone)]
pub struct Options {
    /// Keep all data in this directory; in memory if absent.
    pub data_dir: Option<PathBuf>,
    /// Serve HTTPS on this port; not at all if absent.
    pub port: Option<Port>,
    /// The address to serve on.
    pub bind: IpAddr,
    /// Names and addresses in the serving certificate, beside those that every cluster has.
    pub names: Vec<String>,
    /// Certificates and keys from elsewhere, instead of the cluster's own.
    pub credentials: Option<Credentials>,
    /// What runs beside the API server.
    pub components: Components,
    /// Which controllers run, in the syntax of `--controllers` of kube-controller-manager.
    pub controllers: Vec<String>,
    pub manager_flags: Vec<String>,
    /// How long pods stay on an unreachable node, unless they have tolerations for it.
    pub toleration: Duration,
    pub nodes: nodes::Options,
    /// Options of the API server that do not follow from the others.
    pub server: flyball_apiserver::Options,
    /// The clock of all components. A virtual one must be of the runtime that the cluster is started on.
    pub clock: Clock,
    /// The runtime that serves connections, if it is not the one that the cluster is started on: where the time of the cluster
    /// is virtual, connections still need the real one.
    pub outside: Option<Handle>,
}

/// What runs beside the API server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Components {
    /// The controllers that are enabled, the scheduler, simulated nodes and disks.
    #[default]
    All,
    /// Nothing: objects stay as clients write them.
    None,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            data_dir: None,
            port: None,
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            names: Vec::new(),
            credentials: None,
            components: Components::All,
            controllers: vec!["*".to_owned()],
            manager_flags: Vec::new(),
            toleration: Duration::from_secs(300),
            nodes: nodes::Options::default(),
            server: flyball_apiserver::Options::default(),
            clock: Clock::system(),
            outside: None,
        }
    }
}

/// Why a cluster cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("port {port} is taken; choose another one with --port, or any free one with --port 0")]
    PortTaken { port: u16 },
    /// The port cannot be opened for another reason.
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    /// The data directory is in use by another process.
    #[error(
        "the data directory {} is in use by another process{}: stop that one first, or choose another directory with --data-dir",
        path.display(),
        pid.map(|pid| format!(" ({pid})")).unwrap_or_default()
    )]
    InUse {
        path: PathBuf,
        /// The process, if known.
        pid: Option<u32>,
    },
    #[error("--data-dir {}: this is a file, not a directory", path.display())]
    NotADirectory { path: PathBuf },
    /// A file cannot be read or written.
    #[error("cannot use {path}")]
    File {
        path: String,
        #[source]
        source: std::io::Error,
    },
    /// Keys or certificates cannot be created.
    #[error("keys and certificates cannot be made")]
    Pki(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The API server cannot start.
    #[error("the API server cannot start")]
    Server(#[source] flyball_apiserver::StartError),
    /// TLS cannot be configured.
    #[error("TLS cannot be set up")]
    Tls(#[source] flyball_apiserver::TlsError),
    /// Invalid flags of the controller manager.
    #[error("{0}")]
    Flags(String),
    #[error("the simulated nodes cannot register")]
    Nodes(#[source] flyball_client::Error),
    #[error("the simulated disks cannot register")]
    Disks(#[source] flyball_client::Error),
}

pub struct Cluster {
    server: ApiServer,
    door: Door,
    identity: identity::Identity,
    address: Option<SocketAddr>,
    decisions: DecisionLog,
    controllers: Controllers,
    stop: SignalSender,
    tasks: Vec<JoinHandle<()>>,
    stop_serving: SignalSender,
    serving: Option<JoinHandle<()>>,
}

#[derive(Debug, Clone)]
pub struct Controllers {
    pub running: Vec<&'static str>,
    /// Warnings about the given flags.
    pub notices: Vec<String>,
}

impl Cluster {
    /// Starts everything. When it returns, the nodes are registered and pods can be created.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        if let Some(path) = options.data_dir.as_ref().filter(|path| path.exists() && !path.is_dir()) {
            return Err(StartError::NotADirectory { path: path.clone() });
        }
        let identity =
            identity::Identity::prepare(options.data_dir.as_deref(), options.credentials.as_ref())?;
        let listening = match options.port {
            Some(port) => Some(listen::on(options.outside.as_ref(), options.bind, port).await?),
            None => None,
        };
        let address = listening.as_ref().map(|(_, address)| listen::reachable(*address));
        let decisions = DecisionLog::default();
        let kubelet: Arc<kubelet::Simulated> = Arc::default();
        let clock = options.clock;
        let server = ApiServer::new(flyball_apiserver::Options {
            clock: Arc::new(move || clock.now()),
            virtual_time: !matches!(clock, Clock::System),
            seed: identity::seed(),
            data_dir: options.data_dir.as_ref().map(|dir| dir.join("objects")),
            service_account_key: Some(identity.service_account_key.clone()),
            advertise: address.map_or_else(|| "127.0.0.1:6443".to_owned(), |address| address.to_string()),
            pages: pages::pages(&decisions),
            kubelet: (options.components == Components::All).then(|| kubelet.clone() as _),
            toleration: options.toleration,
            audit_entries: AUDITED,
            ..options.server.clone()
        })
        .map_err(|error| not_started(error, options.data_dir.as_deref()))?;

        let door = Door::new(server.clone(), Handle::current());
        let (stop_serving, serving_stops) = Signal::new();
        let serving = match listening {
            Some((listener, _)) => {
                let serving = identity.serving(options.bind, &options.names)?;
                let tls = flyball_apiserver::tls(&serving, Some(&identity.client_ca()));
                let tls = tls.map_err(StartError::Tls)?;
                let stops = serving_stops.wait();
                Some(match &options.outside {
                    None => tokio::spawn(flyball_apiserver::serve(server.clone(), listener, tls, stops)),
                    Some(outside) => {
                        outside.spawn(flyball_apiserver::serve(door.clone(), listener, tls, stops))
                    }
                })
            }
            None => None,
        };

        let (stop, stops) = Signal::new();
        let (controllers, tasks) = match options.components {
            Components::None => (Controllers { running: Vec::new(), notices: Vec::new() }, Vec::new()),
            Components::All => {
                let started = run(&server, &identity, &options, &decisions, &stops).await?;
                kubelet.set_pods(started.informers.get());
                (started.controllers, started.tasks)
            }
        };
        Ok(Self {
            server,
            door,
            identity,
            address,
            decisions,
            controllers,
            stop,
            tasks,
            stop_serving,
            serving,
        })
    }

    /// The API server, for requests without a socket.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// The way in for requests from other threads, as the cluster's administrator.
    pub fn door(&self) -> Door {
        let groups = vec!["system:masters".to_owned()];
        self.door.for_user(User { name: ADMIN.to_owned(), groups, ..User::default() })
    }

    /// The address that it serves on, if it serves at all.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The decision log of controllers, scheduler and nodes.
    pub fn decisions(&self) -> &DecisionLog {
        &self.decisions
    }

    pub fn controllers(&self) -> &Controllers {
        &self.controllers
    }

    /// A client without a socket, as the cluster's administrator.
    pub fn admin(&self) -> Client {
        client(&self.server, "flyball", ADMIN, &["system:masters"])
    }

    /// A kubeconfig for other processes, if the cluster serves.
    pub fn kubeconfig(&self) -> Result<Option<String>, StartError> {
        let Some(address) = self.address else { return Ok(None) };
        let admin = self.identity.ca.client(ADMIN, "system:masters");
        let admin: pki::Pair = admin.map_err(|error| StartError::Pki(error.into()))?;
        Ok(Some(identity::kubeconfig(address, &self.identity.ca.pair.cert, &admin)))
    }

    /// Stops everything in order: first the components that write, then the API server.
    pub async fn stop(self) {
        self.stop.set();
        let all = futures::future::join_all(self.tasks);
        if tokio::time::timeout(PATIENCE, all).await.is_err() {
            tracing::warn!("some components did not stop in time");
        }
        self.stop_serving.set();
        if let Some(serving) = self.serving
            && tokio::time::timeout(PATIENCE, serving).await.is_err()
        {
            tracing::warn!("the API server did not stop in time");
        }
    }
}

struct Running {
    controllers: Controllers,
    informers: Informers,
    tasks: Vec<JoinHandle<()>>,
}

/// Starts all components beside the API server.
async fn run(
    server: &ApiServer,
    identity: &identity::Identity,
    options: &Options,
    decisions: &DecisionLog,
    stops: &Signal,
) -> Result<Running, StartError> {
    let (controllers, manager) = manager::start(server, identity, options, decisions.clone(), stops.clone())?;
    let writer = |name, user| writer(server, name, user, decisions, options.clock);
    let kubelets = writer("kubelet", KUBELETS);
    nodes::register(&kubelets, options.nodes.count).await.map_err(StartError::Nodes)?;
    let driver = writer("disks", "flyball:disks");
    disks::register(&driver).await.map_err(StartError::Disks)?;
    let binder = writer(scheduler::NAME, "system:kube-scheduler");
    let informers = informers(server);
    let tasks = vec![
        manager,
        tokio::spawn(scheduler::run(binder, informers.clone(), stops.clone())),
        tokio::spawn(disks::run(driver, informers.clone(), stops.clone())),
        tokio::spawn(nodes::run(kubelets, informers.clone(), options.nodes, stops.clone())),
    ];
    Ok(Running { controllers, informers, tasks })
}

/// Puts the directory from the options into the error; the server knows only a part of it.
fn not_started(error: flyball_apiserver::StartError, data_dir: Option<&Path>) -> StartError {
    match (error, data_dir) {
        (flyball_apiserver::StartError::Store(OpenError::InUse { pid, .. }), Some(path)) => {
            StartError::InUse { path: path.to_owned(), pid }
        }
        (other, _) => StartError::Server(other),
    }
}

fn client(server: &ApiServer, agent: &str, user: &str, groups: &[&str]) -> Client {
    let transport: Arc<dyn Transport> = Arc::new(transport::UserTransport::new(server.clone(), user, groups));
    let options = ClientOptions {
        user_agent: format!("{agent}/{}", env!("CARGO_PKG_VERSION")),
        qps: 0.0,
        ..ClientOptions::default()
    };
    Client::new(transport, options)
}

fn writer(
    server: &ApiServer,
    name: &'static str,
    user: &str,
    decisions: &DecisionLog,
    clock: Clock,
) -> Writer {
    let client = client(server, name, user, &["system:masters"]);
    let (events, write) = Recorder::new(name, clock, client.clone());
    tokio::spawn(write);
    Writer::new(name, client, events, decisions.clone(), clock)
}

fn informers(server: &ApiServer) -> Informers {
    let watches = client(server, "playground-informers", "flyball:playground", &["system:masters"]);
    Informers::new(watches, InformerOptions::default())
}
