//! From a command line that makes sense to running controllers: connect, serve, win the election, run.

use std::{path::PathBuf, sync::Arc, time::Duration};

use flyball_cache::{InformerOptions, Informers};
use flyball_client::{
    Client, ClientOptions, ConfigError, ConnectOptions, Connection, Identities, connect, user_agent,
};
use flyball_runtime::{
    Chain, Clock, DebugPages, Health, Metrics, Orders, Shared, Signal,
    config::Generic,
    decisions::DecisionLog,
    election::{self, Elector, LeaseHealth, Lost, Settings},
    events::{ObjectRef, Recorder},
    metrics::ClientMetrics,
    serving::{Authenticator, Authorizer, ClusterCa, Listening, Pages, Server, ServingError},
    version,
};
use tokio::time::{Instant, sleep};

use crate::{engine::Engine, logging::SetVerbosity, options::Options, prepare::Prepared, table::Controller};

/// How long a starting manager waits for an API server.
const WAIT_FOR_SERVER: Duration = Duration::from_secs(10);
/// What stands for a commit in user agents.
const COMMIT: &str = "flyball";
/// Set to run beside another controller manager: all decisions are made and shown, none is carried out.
const SHADOW: &str = "FLYBALL_SHADOW";
const COMPONENT: &str = "kube-controller-manager";
const RELEASE_GATE: &str = "ControllerManagerReleaseLeaderElectionLockOnExit";
/// Deadline of token and access reviews.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// Why the manager ended other than by being told to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No connection can be made from what was given.
    #[error("{flag}")]
    Config {
        /// Which flag names the configuration.
        flag: &'static str,
        /// What is wrong with it.
        #[source]
        source: ConfigError,
    },
    /// There is no API server, or it does not know us.
    #[error("the API server at {server} (from {origin}) cannot be used")]
    Server {
        /// Its address.
        server: String,
        /// Where the address comes from.
        origin: String,
        /// What it said last.
        #[source]
        source: flyball_client::Error,
    },
    /// The cluster's client CA cannot be read.
    #[error(
        "cannot read the cluster's client CA (--authentication-skip-lookup or \
         --authentication-tolerate-lookup-failure do without)"
    )]
    ClientCa(#[source] flyball_client::Error),
    /// The HTTPS server cannot be set up.
    #[error(transparent)]
    Serving(#[from] ServingError),
    /// Somebody else leads, or nobody could be told that we do.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// Runs until told to stop or the lease is lost.
pub async fn run(
    prepared: Prepared,
    set_verbosity: Option<SetVerbosity>,
    shutdown: Signal,
) -> Result<(), RunError> {
    tracing::info!(
        version = version::GIT_VERSION,
        flyball = version::FLYBALL,
        "starting the controller manager"
    );
    for notice in &prepared.notices {
        tracing::warn!("{notice}");
    }
    let clock = Clock::system();
    let metrics = Metrics::new(prepared.metrics.clone());
    metrics.build_info();
    metrics.feature_gates(&prepared.gates);

    let shadow = is_shadow();
    let mut connection = connect_main(&prepared.options).await?;
    if shadow {
        tracing::warn!(
            "{SHADOW} is set: watching and deciding, but writing nothing and standing for no election"
        );
        connection = connection.shadowed();
    }
    let clients = Clients::new(&connection, &prepared.options, &metrics);
    wait_for_server(&connection, &clients.named("")).await?;

    let config = Arc::new(prepared.options.config.clone());
    let resync = Some(config.generic.min_resync_period).filter(|period| !period.is_zero());
    let options = InformerOptions { resync, ..InformerOptions::default() };
    let informers = Informers::new(clients.unlimited("shared-informers"), options);
    watch_informers(&metrics, &informers);
    let (decisions, debug) = (DecisionLog::default(), DebugPages::default());
    let health = Health::default();
    let shared = Shared {
        clock,
        config: config.clone(),
        gates: prepared.gates.clone(),
        informers,
        decisions: decisions.clone(),
        debug: debug.clone(),
        metrics: metrics.clone(),
        server_ca: connection.certificate_authority(),
    };
    let engine = Engine::new(shared, clients.identities(&prepared.options, shadow));
    let elects = config.generic.leader_election.leader_elect && !shadow;
    let elector = elects.then(|| {
        let settings = Settings::new(&config.generic.leader_election, election::identity());
        clients.elector(settings, clock, &metrics)
    });
    let pages =
        pages(&prepared, elector.as_ref(), &health, (decisions, debug), &metrics, set_verbosity, clock);
    let _listening = serve(&prepared.options, pages, &metrics).await?;

    let grace = prepared.options.shutdown_timeout;
    let orders = Orders { leading: Signal::already(), shutdown, grace, health };
    let Some(elector) = elector else {
        engine.run(prepared.controllers.iter().copied(), &orders).await;
        orders.shutdown.given().await;
        return Ok(());
    };
    let second = migration_elector(&config.generic, elector.identity(), &clients, clock, &metrics);
    lead(&prepared, &engine, orders, elector, second).await
}

/// Leads when it is our turn, until shutdown or the loss of a lease. Until then controllers stand by, warm.
async fn lead(
    prepared: &Prepared,
    engine: &Engine,
    orders: Orders,
    mut elector: Elector,
    mut second: Option<Elector>,
) -> Result<(), RunError> {
    let (mine, migrated) = by_lease(prepared);
    let (leads, leading) = Signal::new();
    let (leads_second, leading_second) = Signal::new();
    let work = async {
        let orders_second = Orders { leading: leading_second, ..orders.clone() };
        let orders_main = Orders { leading, ..orders.clone() };
        tokio::join!(engine.run(mine, &orders_main), engine.run(migrated, &orders_second));
        // Controllers that are not needed end early; that is no reason to end the process.
        orders.shutdown.given().await;
    };
    let reign = async {
        elector.acquire().await;
        leads.give();
        let second = async {
            match &mut second {
                Some(second) => {
                    second.acquire().await;
                    leads_second.give();
                    second.renew().await
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            lost = elector.renew() => lost,
            lost = second => lost,
        }
    };
    tokio::select! {
        lost = reign => return Err(lost.into()),
        () = work => {}
    }
    for elector in second.iter_mut().chain([&mut elector]) {
        release(prepared, elector).await;
    }
    Ok(())
}

/// Controllers on their way to or from a cloud-controller-manager run under a second lease, for which that manager
/// competes, too.
fn migration_elector(
    generic: &Generic,
    identity: &str,
    clients: &Clients,
    clock: Clock,
    metrics: &Metrics,
) -> Option<Elector> {
    let name = generic.leader_migration.leader_name.clone();
    generic.leader_migration_enabled.then(|| {
        let settings = Settings { name, ..Settings::new(&generic.leader_election, identity.to_owned()) };
        clients.elector(settings, clock, metrics)
    })
}

/// Gives the lease back, if upstream would: by default it runs out by itself.
async fn release(prepared: &Prepared, elector: &mut Elector) {
    if !prepared.gates.enabled(RELEASE_GATE) {
        return;
    }
    let deadline = prepared.options.config.generic.leader_election.renew_deadline;
    match tokio::time::timeout(deadline, elector.release()).await {
        Ok(Ok(())) => tracing::info!("released the lease"),
        Ok(Err(error)) => tracing::warn!(error = %Chain(&error), "cannot release the lease"),
        Err(_) => tracing::warn!(?deadline, "releasing the lease took too long"),
    }
}

/// The controllers under the main lease, and those under the migration's. What the migration gives to another
/// component is in neither.
fn by_lease(prepared: &Prepared) -> (Vec<&'static Controller>, Vec<&'static Controller>) {
    let generic = &prepared.options.config.generic;
    let leaders = generic.leader_migration.controller_leaders.as_deref().unwrap_or_default();
    let (mut mine, mut migrated) = (vec![], vec![]);
    for controller in &prepared.controllers {
        match leaders.iter().find(|leader| leader.name == controller.name) {
            None => mine.push(*controller),
            Some(leader) if leader.component == "*" || leader.component == COMPONENT => {
                migrated.push(*controller)
            }
            Some(leader) => {
                tracing::info!(
                    controller = controller.name,
                    leader = leader.component,
                    "left to another component"
                );
            }
        }
    }
    (mine, migrated)
}

/// The main identity under its various names.
struct Clients {
    connection: Connection,
    options: ClientOptions,
    lease_timeout: Duration,
}

impl Clients {
    fn new(connection: &Connection, options: &Options, metrics: &Metrics) -> Self {
        let generic = &options.config.generic;
        let options = ClientOptions {
            user_agent: user_agent(version::GIT_VERSION, COMMIT, ""),
            qps: f64::from(generic.client_connection.qps),
            burst: u32::try_from(generic.client_connection.burst).unwrap_or_default(),
            field_manager: Some(COMPONENT.into()),
            observer: Some(Arc::new(ClientMetrics::new(metrics))),
            ..ClientOptions::default()
        };
        Self {
            connection: connection.clone(),
            options,
            lease_timeout: generic.leader_election.renew_deadline / 2,
        }
    }

    fn named(&self, name: &str) -> Client {
        self.with(ClientOptions {
            user_agent: user_agent(version::GIT_VERSION, COMMIT, name),
            ..self.options.clone()
        })
    }

    /// For the caches: their lists come in pages, which must not wait for each other.
    fn unlimited(&self, name: &str) -> Client {
        let user_agent = user_agent(version::GIT_VERSION, COMMIT, name);
        self.with(ClientOptions { user_agent, qps: 0.0, ..self.options.clone() })
    }

    fn with(&self, options: ClientOptions) -> Client {
        Client::with_watches(self.connection.transport(), self.connection.watch_transport(), options)
    }

    /// One identity for each controller, if flags ask for it. A shadow, which makes no accounts, has only its own.
    fn identities(&self, options: &Options, shadow: bool) -> Identities {
        let agent = user_agent(version::GIT_VERSION, COMMIT, "");
        let main = self.named("");
        match options.config.kube_cloud_shared.use_service_account_credentials && !shadow {
            true => Identities::per_account(main, self.connection.anonymous_transport(), agent),
            false => Identities::shared(main, agent),
        }
    }

    fn elector(&self, settings: Settings, clock: Clock, metrics: &Metrics) -> Elector {
        let client = self.with(ClientOptions {
            user_agent: user_agent(version::GIT_VERSION, COMMIT, "leader-election"),
            timeout: self.lease_timeout,
            ..self.options.clone()
        });
        let (recorder, events) = Recorder::new(COMPONENT, clock, self.named(COMPONENT));
        tokio::spawn(events);
        Elector::new(settings, client, metrics.clone(), move || clock.now()).on_event(
            move |lease, message| {
                let about = ObjectRef {
                    kind: "Lease".into(),
                    namespace: lease.namespace.as_str().into(),
                    name: lease.name.as_str().into(),
                    uid: lease.uid.as_str().into(),
                    api_version: "coordination.k8s.io/v1".into(),
                    resource_version: lease.resource_version.as_str().into(),
                };
                recorder.normal(&about, "LeaderElection", message);
            },
        )
    }
}

/// Whether to write nothing. Not a flag, as the command line is upstream's.
fn is_shadow() -> bool {
    std::env::var_os(SHADOW).is_some_and(|value| !value.is_empty() && value != "0")
}

async fn connect_main(options: &Options) -> Result<Connection, RunError> {
    let kubeconfig = &options.config.generic.client_connection.kubeconfig;
    let flag = if kubeconfig.is_empty() && !options.master.is_empty() { "--master" } else { "--kubeconfig" };
    let to = ConnectOptions {
        kubeconfig: (!kubeconfig.is_empty()).then(|| PathBuf::from(kubeconfig)),
        master: (!options.master.is_empty()).then(|| options.master.clone()),
        context: None,
    };
    connect(&to).await.map_err(|source| RunError::Config { flag, source })
}

/// Asks for the server's health each second, for a while: it may be starting, too.
async fn wait_for_server(connection: &Connection, client: &Client) -> Result<(), RunError> {
    let start = Instant::now();
    let mut told = false;
    loop {
        let asked = tokio::time::timeout(WAIT_FOR_SERVER, client.get_raw("/healthz")).await;
        match asked {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(source)) if start.elapsed() + Duration::from_secs(1) > WAIT_FOR_SERVER => {
                let (server, origin) = (connection.server().to_string(), connection.origin().to_owned());
                return Err(RunError::Server { server, origin, source });
            }
            Ok(Err(error)) if !told => {
                told = true;
                tracing::info!(server = %connection.server(), error = %Chain(&error), "waiting for the API server");
            }
            _ => {}
        }
        sleep(Duration::from_secs(1)).await;
    }
}

/// Numbers of the caches, read at each scrape.
fn watch_informers(metrics: &Metrics, informers: &Informers) {
    use flyball_runtime::metrics::{INFORMER_OBJECTS, INFORMER_RELISTS, INFORMER_UNDECODABLE};
    let informers = informers.clone();
    metrics.on_scrape(move |metrics| {
        for informer in informers.all() {
            let (resource, counts) = (informer.resource().to_string(), informer.counts());
            metrics.counter(&INFORMER_RELISTS, &[&resource]).at_least(counts.relists as f64);
            metrics.gauge(&INFORMER_OBJECTS, &[&resource]).set(counts.objects as f64);
            metrics.gauge(&INFORMER_UNDECODABLE, &[&resource]).set(counts.undecodable as f64);
        }
    });
}

fn pages(
    prepared: &Prepared,
    elector: Option<&Elector>,
    health: &Health,
    (decisions, debug): (DecisionLog, DebugPages),
    metrics: &Metrics,
    set_verbosity: Option<SetVerbosity>,
    clock: Clock,
) -> Pages {
    let (lease, health) = (elector.map(Elector::health), health.clone());
    let checks = move || {
        let lease = lease.iter().map(|lease| (LeaseHealth::NAME.to_owned(), lease.check()));
        lease.chain(health.checks().into_iter().map(|(name, state)| (name.to_owned(), state))).collect()
    };
    Pages {
        configz: prepared.options.config.configz(),
        flagz: prepared.gates.enabled("ComponentFlagz").then(|| prepared.flagz.clone()),
        statusz: prepared.gates.enabled("ComponentStatusz"),
        debug: prepared.options.config.generic.debugging.enable_profiling,
        metrics: metrics.clone(),
        checks: Arc::new(checks),
        decisions: Some(Arc::new(decisions)),
        controllers: debug,
        set_verbosity,
        now: Arc::new(move || clock.now()),
    }
}

/// Sets up authentication, authorization and the listener.
async fn serve(options: &Options, pages: Pages, metrics: &Metrics) -> Result<Option<Listening>, RunError> {
    if options.serving.port == 0 {
        return Ok(None);
    }
    let (authn, authz) = (&options.authentication, &options.authorization);
    let authn_client = review_client(&authn.kubeconfig, "--authentication-kubeconfig").await?;
    let authz_client = review_client(&authz.kubeconfig, "--authorization-kubeconfig").await?;
    let mut cluster = None;
    if let Some(client) = authn_client.as_ref().filter(|_| !authn.skip_lookup) {
        let ca = ClusterCa::default();
        match ca.read(client).await {
            Ok(()) => {}
            Err(error) if authn.tolerate_lookup_failure => {
                tracing::warn!(error = %Chain(&error), "cannot read the cluster's client CA; going on without");
            }
            Err(error) => return Err(RunError::ClientCa(error)),
        }
        tokio::spawn(ca.clone().follow(client.clone()));
        cluster = Some(ca);
    }
    let authenticator =
        Authenticator::new(authn, authn_client, cluster, metrics.clone()).map_err(ServingError::Options)?;
    let authorizer = Authorizer::new(authz, authz_client, metrics.clone());
    let listening = Server::new(pages, authenticator, authorizer).listen(&options.serving)?;
    if let Some(listening) = &listening {
        tracing::info!(address = %listening.address, "serving");
    }
    Ok(listening)
}

/// A client for reviews; they are few, and somebody waits for each, so there is no rate limit.
async fn review_client(kubeconfig: &str, flag: &'static str) -> Result<Option<Client>, RunError> {
    if kubeconfig.is_empty() {
        return Ok(None);
    }
    let to = ConnectOptions { kubeconfig: Some(PathBuf::from(kubeconfig)), ..ConnectOptions::default() };
    let connection = connect(&to).await.map_err(|source| RunError::Config { flag, source })?;
    let options = ClientOptions {
        user_agent: user_agent(version::GIT_VERSION, COMMIT, ""),
        qps: 0.0,
        timeout: REVIEW_TIMEOUT,
        ..ClientOptions::default()
    };
    Ok(Some(Client::with_watches(connection.transport(), connection.watch_transport(), options)))
}
