//! From a command line that makes sense to running controllers: connect, serve, win the election, run.

use std::sync::Arc;

use flyball_cache::{InformerOptions, Informers};
use flyball_client::{ConfigError, Identities};
use flyball_runtime::{
    Chain, Clock, DebugPages, Extensions, Health, Metrics, Orders, Shared, Signal,
    config::Generic,
    decisions::DecisionLog,
    election::{self, Elector, Lost, Settings},
    metrics::LOG_DROPPED,
    serving::{LookupError, ServingError},
    version,
};
use futures::future::BoxFuture;

use crate::{
    clients::{Clients, connect_main, wait_for_server},
    engine::Engine,
    logging::Logging,
    prepare::Prepared,
    serve::{pages, serve},
    table::Controller,
};

/// Set to run beside another controller manager: all decisions are made and shown, none is carried out.
const SHADOW: &str = "FLYBALL_SHADOW";

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
    ClientCa(#[source] LookupError),
    /// The HTTPS server cannot be set up.
    #[error(transparent)]
    Serving(#[from] ServingError),
    /// Somebody else leads, or nobody could be told that we do.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// What a manager brings along besides flags and controllers.
#[derive(Default)]
pub struct Equipment {
    /// For its controllers.
    pub extensions: Extensions,
    /// Called once this process leads; controllers act when it is done.
    pub begin: Option<Begin>,
}

/// See [`Equipment::begin`].
pub type Begin = Box<dyn FnOnce(Surroundings) -> BoxFuture<'static, ()> + Send>;

/// What is there when a manager begins to lead.
#[derive(Clone)]
pub struct Surroundings {
    /// The caches that controllers share.
    pub informers: Informers,
    /// The API server, under the manager's identity or a service account's.
    pub identities: Identities,
    /// Given when the process is to end.
    pub shutdown: Signal,
}

/// Runs until told to stop or the lease is lost.
pub async fn run(
    prepared: Prepared,
    equipment: Equipment,
    logging: Option<Logging>,
    shutdown: Signal,
) -> Result<(), RunError> {
    tracing::info!(
        version = version::GIT_VERSION,
        flyball = version::FLYBALL,
        component = prepared.component.name,
        "starting the controller manager"
    );
    for notice in &prepared.notices {
        tracing::warn!("{notice}");
    }
    let clock = Clock::system();
    let metrics = Metrics::new(prepared.metrics.clone());
    metrics.build_info();
    metrics.feature_gates(&prepared.gates);
    if let Some(logging) = logging.clone() {
        let dropped = move |m: &Metrics| m.counter(&LOG_DROPPED, &[]).at_least(logging.dropped() as f64);
        metrics.on_scrape(dropped);
    }

    let shadow = is_shadow();
    let mut connection = connect_main(&prepared.options).await?;
    if shadow {
        tracing::warn!(
            "{SHADOW} is set: watching and deciding, but writing nothing and standing for no election"
        );
        connection = connection.shadowed();
    }
    let clients = Clients::new(prepared.component, &connection, &prepared.options, &metrics);
    wait_for_server(&connection, &clients.named("")).await?;

    let config = Arc::new(prepared.options.config.clone());
    let resync = Some(config.generic.min_resync_period).filter(|period| !period.is_zero());
    let options = InformerOptions { resync, ..InformerOptions::default() };
    let informers = Informers::new(clients.unlimited("shared-informers"), options);
    metrics.watch_informers(prepared.component.name, &informers);
    let (decisions, debug) = (DecisionLog::default(), DebugPages::default());
    let health = Health::default();
    let Equipment { extensions, begin } = equipment;
    let shared = Shared {
        component: prepared.component.name,
        clock,
        config: config.clone(),
        gates: prepared.gates.clone(),
        informers,
        decisions: decisions.clone(),
        debug: debug.clone(),
        metrics: metrics.clone(),
        server_ca: connection.certificate_authority(),
        extensions,
    };
    let identities = clients.identities(&prepared.options, shadow);
    let surroundings = Surroundings {
        informers: shared.informers.clone(),
        identities: identities.clone(),
        shutdown: shutdown.clone(),
    };
    let begin = async move {
        if let Some(begin) = begin {
            begin(surroundings).await;
        }
    };
    let engine = Engine::new(shared, identities);
    let elects = config.generic.leader_election.leader_elect && !shadow;
    let elector = elects.then(|| {
        let settings = Settings::new(&config.generic.leader_election, election::identity());
        clients.elector(settings, clock, &metrics)
    });
    let set_verbosity = logging.map(|logging| logging.set_verbosity);
    let pages =
        pages(&prepared, elector.as_ref(), &health, (decisions, debug), &metrics, set_verbosity, clock);
    let _listening = serve(&prepared, pages, &metrics).await?;

    let grace = prepared.options.shutdown_timeout;
    let orders = Orders { leading: Signal::already(), shutdown, grace, health };
    let Some(elector) = elector else {
        begin.await;
        engine.run(prepared.controllers.iter().copied(), &orders).await;
        orders.shutdown.given().await;
        return Ok(());
    };
    let second = migration_elector(&config.generic, elector.identity(), &clients, clock, &metrics);
    lead(&prepared, &engine, orders, (elector, second), begin).await
}

/// Leads when it is our turn, until shutdown or the loss of a lease. Until then controllers stand by, warm.
async fn lead(
    prepared: &Prepared,
    engine: &Engine,
    orders: Orders,
    (mut elector, mut second): (Elector, Option<Elector>),
    begin: impl Future<Output = ()>,
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
        let (begun, has_begun) = Signal::new();
        let beginning = async {
            begin.await;
            leads.give();
            begun.give();
            std::future::pending().await
        };
        let second = async {
            has_begun.given().await;
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
            lost = beginning => lost,
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
    if !prepared.component.release_gate.is_some_and(|gate| prepared.gates.enabled(gate)) {
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
            Some(leader) if leader.component == "*" || leader.component == prepared.component.name => {
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

/// Whether to write nothing. Not a flag, as the command line is upstream's.
fn is_shadow() -> bool {
    std::env::var_os(SHADOW).is_some_and(|value| !value.is_empty() && value != "0")
}
