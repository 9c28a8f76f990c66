//! The whole cluster in this process: API server, controllers, scheduler, nodes, and clients for it.

mod acts;
mod cloud;
mod expose;
mod identity;
mod kubelet;
mod listen;
mod manager;
mod page;
mod pages;
mod service;
mod snapshot;
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
use flyball_cloud::kit::ConfigError;
use flyball_journal::{Journal, Limits};
use flyball_runtime::decisions::DecisionLog;
use flyball_runtime::events::Recorder;
use flyball_runtime::{Clock, Signal, SignalSender};
use flyball_ui::{Local, Ui};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

pub use identity::Credentials;
pub use listen::Port;
pub use service::{ClusterService, Gone, Writes};
pub use snapshot::{Saver, Snapshot, SnapshotError};

use self::acts::Buttons;
use self::page::Page;
use crate::nodes::machines::Machines;
use crate::timeline::Dial;
use crate::writer::Writer;
use crate::{disks, nodes, scheduler};

/// The size of the audit log, which nothing reads here.
const AUDITED: usize = 1000;
/// In a data directory: the objects, and the file by which it is recognised.
const OBJECTS: &str = "objects";
pub const MARKER: &str = ".flyball-data";
/// Time for all parts to stop.
const PATIENCE: Duration = Duration::from_secs(5);
/// The folder of the journal of decisions in a data directory, and how much it keeps.
pub const JOURNAL: &str = "journal";
const KEPT: Limits = Limits { size: 8 << 20, age: Duration::from_secs(30 * 86_400) };
const ADMIN: &str = "flyball-admin";
/// The user that the simulated nodes are.
pub const KUBELETS: &str = "flyball:kubelets";

/// Options of a cluster.
#[derive(Debug, Clone)]
pub struct Options {
    /// Keep all data in this directory; in memory if absent.
    pub data_dir: Option<PathBuf>,
    /// Start with what is in a snapshot, instead of what is in the directory.
    pub snapshot: Option<Snapshot>,
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
    /// Decides all that is left to chance, such as generated names and uids; random if absent.
    pub seed: Option<u64>,
    /// The log of all decisions; a new one if absent.
    pub decisions: Option<DecisionLog>,
    /// The clock of all components. A virtual one must be of the runtime that the cluster is started on.
    pub clock: Clock,
    /// What moves that clock, if it can be moved.
    pub dial: Option<Dial>,
    /// The runtime that serves connections, if it is not the one that the cluster is started on: where the time of the cluster
    /// is virtual, connections still need the real one.
    pub outside: Option<Handle>,
    /// Whether there is a live page at `/ui`, beside the API.
    pub page: bool,
    /// The file of a simulated cloud: its machines are the nodes, if it has some, and all controllers of the cloud run.
    pub cloud: Option<PathBuf>,
    /// Listen on the addresses of load balancers, which are loopback addresses of this machine.
    pub expose: bool,
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
            snapshot: None,
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
            seed: None,
            decisions: None,
            clock: Clock::system(),
            dial: None,
            outside: None,
            page: false,
            cloud: None,
            expose: false,
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
    /// Keys would be read from it, or overwritten.
    #[error(
        "--data-dir {}: there is something else in this directory, and no data of a cluster; name an empty or a new one",
        path.display()
    )]
    NotOurs { path: PathBuf },
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
    #[error("decisions cannot be kept")]
    Journal(#[source] flyball_journal::OpenError),
    /// Invalid flags of the controller manager.
    #[error("{0}")]
    Flags(String),
    /// The file of the simulated cloud cannot be used.
    #[error("--cloud")]
    Cloud(#[source] ConfigError),
    #[error("the simulated nodes cannot register")]
    Nodes(#[source] flyball_client::Error),
    #[error("the simulated disks cannot register")]
    Disks(#[source] flyball_client::Error),
}

pub struct Cluster {
    server: ApiServer,
    service: ClusterService,
    identity: identity::Identity,
    address: Option<SocketAddr>,
    decisions: DecisionLog,
    controllers: Controllers,
    nodes: usize,
    page: Page,
    dial: Option<Dial>,
    journal: Option<Journal>,
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
        if let Some(dir) = &options.data_dir {
            claim(dir)?;
        }
        let keys = options.snapshot.as_ref().and_then(|snapshot| snapshot.keys.as_ref());
        let identity =
            identity::Identity::prepare(options.data_dir.as_deref(), options.credentials.as_ref(), keys)?;
        let listening = match options.port {
            Some(port) => Some(listen::on(options.outside.as_ref(), options.bind, port).await?),
            None => None,
        };
        let address = listening.as_ref().map(|(_, address)| listen::reachable(*address));
        let tls = match &listening {
            Some(_) => {
                let serving = identity.serving(options.bind, &options.names)?;
                let tls = flyball_apiserver::tls(&serving, Some(&identity.client_ca()));
                Some(tls.map_err(StartError::Tls)?)
            }
            None => None,
        };
        let decisions = options.decisions.clone().unwrap_or_default();
        let kubelet: Arc<kubelet::Simulated> = Arc::default();
        let clock = options.clock;
        let journal = match &options.data_dir {
            Some(dir) if options.components == Components::All => {
                let journal = Journal::follow(&decisions, &dir.join(JOURNAL), KEPT, clock);
                Some(journal.map_err(StartError::Journal)?)
            }
            _ => None,
        };
        let server = ApiServer::new(flyball_apiserver::Options {
            clock: Arc::new(move || clock.now()),
            virtual_time: !matches!(clock, Clock::System),
            seed: options.seed.unwrap_or_else(identity::seed),
            data_dir: options.data_dir.as_ref().map(|dir| dir.join(OBJECTS)),
            snapshot: options.snapshot.as_ref().map(|snapshot| Arc::clone(&snapshot.objects)),
            service_account_key: Some(identity.service_account_key.clone()),
            advertise: address.map_or_else(|| "127.0.0.1:6443".to_owned(), |address| address.to_string()),
            endpoint: address,
            client_ca: address.map(|_| identity.client_ca()),
            front_proxy: address.map(|_| identity::front_proxy()).transpose()?,
            pages: pages::pages(&decisions),
            kubelet: (options.components == Components::All).then(|| kubelet.clone() as _),
            toleration: options.toleration,
            audit_entries: AUDITED,
            ..options.server.clone()
        })
        .map_err(|error| not_started(error, options.data_dir.as_deref()))?;
        let durable = server.store().durable(server.store().version()).await;
        durable.map_err(|error| StartError::Server(flyball_apiserver::StartError::Store(error)))?;
        identity.persist()?;

        if let Some(dial) = &options.dial {
            dial.attach(Some(server.clone()));
        }
        let service = ClusterService::new(server.clone(), Handle::current());
        let page = Page::default();
        let (stop_serving, serving_stops) = Signal::new();
        let serving = match listening.zip(tls) {
            Some(((listener, _), tls)) => {
                let (stops, plain) = (serving_stops.wait(), page.plain());
                Some(match &options.outside {
                    None => {
                        let both = page.before(server.clone());
                        tokio::spawn(flyball_apiserver::serve_and_plainly(both, plain, listener, tls, stops))
                    }
                    Some(outside) => {
                        let both = page.before(service.clone());
                        outside.spawn(flyball_apiserver::serve_and_plainly(both, plain, listener, tls, stops))
                    }
                })
            }
            None => None,
        };

        let (stop, stops) = Signal::new();
        let mut cluster = Self {
            server,
            service,
            identity,
            address,
            decisions,
            controllers: Controllers { running: Vec::new(), notices: Vec::new() },
            nodes: 0,
            page,
            dial: options.dial.clone(),
            journal,
            stop,
            tasks: Vec::new(),
            stop_serving,
            serving,
        };
        if options.components == Components::All
            && let Err(error) = cluster.run(&options, &kubelet, &stops).await
        {
            // Whoever starts another one needs the port and the directory.
            cluster.stop().await;
            return Err(error);
        }
        Ok(cluster)
    }

    /// Starts all components beside the API server. If that fails, some may run.
    async fn run(
        &mut self,
        options: &Options,
        kubelet: &kubelet::Simulated,
        stops: &Signal,
    ) -> Result<(), StartError> {
        let (server, decisions) = (&self.server, &self.decisions);
        let cloud = cloud::open(options)?;
        let (controllers, shown, manager) =
            manager::start(server, &self.identity, options, &cloud, decisions.clone(), stops.clone())?;
        self.controllers = controllers;
        self.tasks.push(manager);
        let writer = |name, user| writer(server, name, user, decisions, options.clock);
        let kubelets = writer("kubelet", KUBELETS);
        let machines = match cloud.config().machines {
            Some(_) => Some(Machines::start(kubelets.clone(), cloud).await.map_err(StartError::Nodes)?),
            None => {
                nodes::register(&kubelets, options.nodes.count).await.map_err(StartError::Nodes)?;
                None
            }
        };
        self.nodes = machines.as_ref().map_or(options.nodes.count.into(), Machines::running);
        let driver = writer("disks", "flyball:disks");
        disks::register(&driver).await.map_err(StartError::Disks)?;
        let binder = writer(scheduler::NAME, "system:kube-scheduler");
        let informers = informers(server, watching(options));
        let events = kubelets.events().with_source("flyball-expose");
        self.tasks.extend([
            tokio::spawn(scheduler::run(binder, informers.clone(), stops.clone())),
            tokio::spawn(disks::run(driver, informers.clone(), stops.clone())),
            tokio::spawn(nodes::run(kubelets, informers.clone(), options.nodes, stops.clone())),
        ]);
        self.tasks.extend(machines.map(|machines| tokio::spawn(machines.run(stops.clone()))));
        if options.expose {
            self.tasks.push(tokio::spawn(expose::run(informers.clone(), events, stops.clone())));
        }
        kubelet.set_pods(&informers.get());
        if let Some(address) = self.address.filter(|_| options.page) {
            let client = client(server, "flyball-ui", ADMIN, &["system:masters"]);
            let buttons = Buttons { client: client.clone(), dial: options.dial.clone() };
            let sources = page::sources(shown, decisions, client, options.clock, buttons);
            // In real time, however fast the cluster's goes.
            let runtime = options.outside.clone().unwrap_or_else(Handle::current);
            self.page.open(Local::new(Ui::new(sources, runtime), address, &options.names));
        }
        Ok(())
    }

    /// The API server, for requests without a socket.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// The way in for requests from other threads, as the cluster's administrator.
    pub fn service(&self) -> ClusterService {
        let groups = vec!["system:masters".to_owned()];
        self.service.for_user(User { name: ADMIN.to_owned(), groups, ..User::default() })
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

    /// How many simulated nodes it has started with, or more if they were there before.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// A link to the live page that works once, if there is a page.
    pub fn page_link(&self) -> Option<String> {
        self.page.link()
    }

    /// The same for code that does not have the cluster.
    pub fn page_links(&self) -> impl Fn() -> Option<String> + Send + Sync + 'static {
        let page = self.page.clone();
        move || page.link()
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

    /// What writes snapshots of this cluster.
    pub fn saver(&self) -> Saver {
        Saver::new(self.server.clone(), self.identity.keys())
    }

    /// Stops everything in order: first the components that write, then the API server. When it returns, the data directory is
    /// free.
    pub async fn stop(mut self) {
        self.stop_writing().await;
        self.close().await;
    }

    /// The same. Returns what the cluster was in the end.
    pub async fn stop_keeping(mut self) -> Result<Snapshot, SnapshotError> {
        self.stop_writing().await;
        let saver = self.saver();
        let kept = tokio::task::spawn_blocking(move || saver.copy()).await;
        self.close().await;
        kept.unwrap_or_else(|error| Err(std::io::Error::other(error).into()))
    }

    async fn stop_writing(&mut self) {
        self.stop.set();
        let all = futures::future::join_all(self.tasks.drain(..));
        if tokio::time::timeout(PATIENCE, all).await.is_err() {
            tracing::warn!("some components did not stop in time");
        }
        if let Some(journal) = self.journal.take() {
            journal.finish().await;
        }
        self.stop_serving.set();
        if let Some(serving) = self.serving.take()
            && tokio::time::timeout(PATIENCE, serving).await.is_err()
        {
            tracing::warn!("the API server did not stop in time");
        }
    }

    async fn close(self) {
        if tokio::time::timeout(PATIENCE, self.server.store().close()).await.is_err() {
            tracing::warn!("the database was not closed in time");
        }
        if let Some(dial) = &self.dial {
            dial.attach(None);
        }
    }
}

/// Marks a data directory as ours. One that has other things in it is refused.
fn claim(dir: &Path) -> Result<(), StartError> {
    let file = |source| StartError::File { path: dir.display().to_string(), source };
    std::fs::create_dir_all(dir).map_err(file)?;
    let is_ours = dir.join(MARKER).exists() || dir.join(OBJECTS).is_dir();
    if !is_ours && std::fs::read_dir(dir).map_err(file)?.next().is_some() {
        return Err(StartError::NotOurs { path: dir.to_owned() });
    }
    let marker = dir.join(MARKER);
    if !marker.exists() {
        std::fs::write(&marker, "The data of a Flyball cluster.\n").map_err(file)?;
    }
    Ok(())
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

/// How long watches last, at random, follows from the seed as well.
fn watching(options: &Options) -> InformerOptions {
    let default = InformerOptions::default();
    InformerOptions { seed: options.seed.unwrap_or(default.seed), ..default }
}

fn informers(server: &ApiServer, options: InformerOptions) -> Informers {
    let watches = client(server, "playground-informers", "flyball:playground", &["system:masters"]);
    Informers::new(watches, options)
}
