//! Runs a manager whose options are valid: connects to the API server, serves the port, takes part in leader election, runs the
//! controllers.

use std::sync::Arc;

use flyball_cache::{InformerOptions, Informers};
use flyball_client::{ConfigError, Fence, FenceClock, Identities};
use flyball_election::{Elector, Lost, Settings};
use flyball_runtime::{
    Clock, DebugPages, Extensions, Health, Leadership, Metrics, Shared, Signal, Supervision, config::Generic,
    decisions::DecisionLog, gates::Gate, metrics::LOG_DROPPED, version,
};
use flyball_serving::{Listening, LookupError, ServingError};
use futures::future::{BoxFuture, join_all};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::{
    campaign::{Campaign, Candidates},
    clients::{Clients, connect_main, wait_for_server},
    engine::Engine,
    logging::Logging,
    prepare::Prepared,
    serve::{pages, serve},
    table::Controller,
};

/// If set, all decisions are made and shown, and none is carried out: for running beside another controller manager.
const SHADOW: &str = "FLYBALL_SHADOW";

/// Why the manager ended, other than by a signal.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration of the connection is invalid.
    #[error("{flag}")]
    Config {
        /// The flag with the configuration.
        flag: &'static str,
        #[source]
        source: ConfigError,
    },
    /// The API server does not respond, or refuses the credentials.
    #[error("the API server at {server} (from {origin}) cannot be used")]
    Server {
        server: String,
        /// Where the address comes from.
        origin: String,
        #[source]
        source: flyball_client::Error,
    },
    /// The cluster's client CA cannot be read.
    #[error(
        "cannot read the cluster's client CA (--authentication-skip-lookup or \
         --authentication-tolerate-lookup-failure do without)"
    )]
    ClientCa(#[source] LookupError),
    #[error("cannot start leader election")]
    Election(#[source] std::io::Error),
    #[error(transparent)]
    Serving(#[from] ServingError),
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// What a program adds to the manager besides its [`Component`](crate::Component).
#[derive(Default)]
pub struct Equipment {
    pub extensions: Extensions,
    /// Called once this process leads; controllers start when it has completed.
    pub begin: Option<Begin>,
    /// Starts another server, which also runs on standbys.
    pub serve: Option<ServeMore>,
}

/// See [`Equipment::serve`].
pub type ServeMore = Box<dyn FnOnce(&Metrics) -> Result<Option<Listening>, ServingError> + Send>;

/// See [`Equipment::begin`].
pub type Begin = Box<dyn FnOnce(Surroundings) -> BoxFuture<'static, ()> + Send>;

/// What [`Equipment::begin`] gets when this process begins to lead.
#[derive(Clone)]
pub struct Surroundings {
    /// The caches that controllers share.
    pub informers: Informers,
    /// The API server, under the manager's identity or a service account's.
    pub identities: Identities,
    /// Set at shutdown.
    pub shutdown: Signal,
}

/// Runs until shutdown or until the lease is lost.
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
    metrics.build_info(prepared.gates.versions());
    metrics.feature_gates(&prepared.gates);
    if let Some(logging) = logging.clone() {
        let dropped = move |m: &Metrics| m.counter(&LOG_DROPPED, &[]).at_least(logging.dropped() as f64);
        metrics.on_scrape(dropped);
    }

    let shadow = is_shadow();
    let mut config = prepared.options.config.clone();
    if shadow {
        // These drivers are programs that change storage.
        config.persistent_volume_binder_controller.volume_configuration.flex_volume_plugin_dir.clear();
    }
    let config = Arc::new(config);
    let elects = config.generic.leader_election.leader_elect && !shadow;
    let fence = elects.then(|| Fence::new(FenceClock::Boot));
    let mut connection = connect_main(&prepared.options, fence.clone()).await?;
    if shadow {
        tracing::warn!(
            "{SHADOW} is set: watching and deciding, but writing nothing and not taking part in leader election"
        );
        connection = connection.shadowed();
    }
    let clients = Clients::new(prepared.component, &connection, &prepared.options, &metrics, fence.clone());
    wait_for_server(&connection, &clients.named("")).await?;

    let resync = Some(config.generic.min_resync_period).filter(|period| !period.is_zero());
    let streams = prepared.gates.enabled(Gate::WatchListClient);
    let options = InformerOptions { resync, streams, ..InformerOptions::default() };
    let informers = Informers::new(clients.unlimited("shared-informers"), options);
    metrics.watch_informers(prepared.component.name, &informers);
    let (decisions, debug) = (DecisionLog::default(), DebugPages::default());
    let health = Health::default();
    let Equipment { extensions, begin, serve: serve_more } = equipment;
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
    let informers = shared.informers.clone();
    let engine = Engine::new(shared, identities);
    let coordinated = is_coordinated(&prepared);
    let elector = fence.map(|fence| {
        let settings = Settings::new(&config.generic.leader_election, flyball_election::identity());
        clients.elector(Settings { coordinated, ..settings }, clock, &metrics, fence)
    });
    let candidate = elector.as_ref().filter(|_| coordinated).map(|elector| {
        let candidate = clients.candidate(elector.identity(), prepared.gates.versions(), clock);
        let health = candidate.health();
        tokio::spawn(candidate.run());
        health
    });
    let set_verbosity = logging.map(|logging| logging.set_verbosity);
    let election = (elector.as_ref(), candidate);
    let pages = pages(&prepared, election, &health, (decisions, debug), &metrics, set_verbosity, clock);
    let _listening = serve(&prepared, pages, &metrics).await?;
    let _listening_more = serve_more.map(|serve| serve(&metrics)).transpose()?.flatten();

    let grace = prepared.options.shutdown_timeout;
    let supervision = Supervision { leading: Leadership::always(), shutdown, grace, health };
    let Some(elector) = elector else {
        begin.await;
        engine.run(prepared.controllers.iter().copied(), &supervision).await;
        supervision.shutdown.wait().await;
        return Ok(());
    };
    let settings = Settings::new(&config.generic.leader_election, elector.identity().to_owned());
    let settings = Settings { coordinated, ..settings };
    let second = migration_elector(&config.generic, settings, &clients, clock, &metrics);
    lead(&prepared, &engine, supervision, (elector, second), informers, begin).await
}

/// Runs controllers with leader election, until shutdown or until a lease is lost. On standby, their caches are kept filled.
/// `second` is the elector of a leader migration.
async fn lead(
    prepared: &Prepared,
    engine: &Engine,
    supervision: Supervision,
    (main, second): (Elector, Option<(Elector, Fence)>),
    informers: Informers,
    begin: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let (send_vacancy, vacancies) = watch::channel(None);
    let main = main.on_vacancy(move |since| {
        send_vacancy.send_replace(Some(since));
    });
    let (second, second_fence) = second.unzip();
    let (begin_second, begun) = Signal::new();
    let mut campaign = Campaign::start(Candidates { main, second, begun }).map_err(RunError::Election)?;
    let (leads, leading) = Leadership::new();
    let (leads_second, leading_second) = Leadership::new();
    let (mine, migrated) = by_lease(prepared);
    let work = async {
        let supervision_second = Supervision { leading: leading_second, ..supervision.clone() };
        let supervision_main = Supervision { leading, ..supervision.clone() };
        let engine_second = engine.clone().under(second_fence);
        tokio::join!(engine.run(mine, &supervision_main), engine_second.run(migrated, &supervision_second));
        // Controllers that are not needed end early; the process continues.
        supervision.shutdown.wait().await;
    };
    let (won, won_second) = (campaign.won(), campaign.won_second());
    let start_when_elected = async {
        let since = won.await;
        begin.await;
        leads.set(since);
        begin_second.set();
        leads_second.set(won_second.await);
        std::future::pending().await
    };
    tokio::select! {
        lost = campaign.lost() => return Err(lost.into()),
        () = work => {}
        () = start_when_elected => {}
        () = update_caches_early(informers, vacancies) => {}
    }
    if prepared.component.release_gate.is_some_and(|gate| prepared.gates.enabled(gate)) {
        campaign.release(prepared.options.config.generic.leader_election.renew_deadline).await;
    }
    Ok(())
}

/// Brings the caches up to date as soon as the leader has stopped renewing its lease, so that controllers can start right after
/// the lease has expired.
async fn update_caches_early(informers: Informers, mut vacancies: watch::Receiver<Option<Instant>>) {
    while vacancies.changed().await.is_ok() {
        let Some(since) = *vacancies.borrow_and_update() else { continue };
        let caches = join_all(informers.all().into_iter().map(|cache| cache.current_since(since)));
        tokio::select! {
            _ = caches => tracing::debug!("caches are up to date"),
            // The leader has renewed the lease, and has stopped again.
            _ = vacancies.changed() => vacancies.mark_changed(),
        }
    }
    std::future::pending().await
}

/// The elector for the second lease of a leader migration, which this process shares with the cloud-controller-manager.
fn migration_elector(
    generic: &Generic,
    settings: Settings,
    clients: &Clients,
    clock: Clock,
    metrics: &Metrics,
) -> Option<(Elector, Fence)> {
    let name = generic.leader_migration.leader_name.clone();
    generic.leader_migration_enabled.then(|| {
        let settings = Settings { name, ..settings };
        let fence = Fence::new(FenceClock::Boot);
        (clients.elector(settings, clock, metrics, fence.clone()), fence)
    })
}

/// The controllers under the main lease, and those under the migration's. Controllers that the migration assigns to another
/// component are in neither.
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
                    "the leader migration assigns this controller to another component"
                );
            }
        }
    }
    (mine, migrated)
}

/// Whether the API server chooses the leader (coordinated leader election).
fn is_coordinated(prepared: &Prepared) -> bool {
    let gate = Gate::CoordinatedLeaderElection;
    (prepared.component.reads)(gate) && prepared.gates.enabled(gate)
}

/// Set by an environment variable, because the flags are exactly upstream's.
fn is_shadow() -> bool {
    std::env::var_os(SHADOW).is_some_and(|value| !value.is_empty() && value != "0")
}
