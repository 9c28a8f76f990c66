//! Runs a manager whose options are valid: connects to the API server, serves the port, takes part in leader election, runs the
//! controllers.

use std::sync::Arc;

use flyball_cache::{InformerOptions, Informers};
use flyball_client::{ConfigError, Connection, Fence, FenceClock};
use flyball_election::Lost;
use flyball_runtime::{
    Clock, DebugPages, Health, Leadership, Metrics, Shared, Signal, Supervision, config::Config,
    decisions::DecisionLog, gates::Gate, metrics::LOG_DROPPED, version,
};
use flyball_serving::{LookupError, ServingError};

use crate::{
    clients::{Clients, WAIT_FOR_SERVER, connect_main, wait_for_server},
    engine::Engine,
    equipment::{Equipment, Surroundings},
    lead::{Election, lead},
    logging::Logging,
    prepare::Prepared,
    serve::{pages, serve},
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

/// Runs until shutdown or until the lease is lost.
pub async fn run(
    prepared: Prepared,
    equipment: Equipment,
    logging: Option<Logging>,
    shutdown: Signal,
) -> Result<(), RunError> {
    announce(&prepared);
    let clock = Clock::system();
    let metrics = metrics(&prepared, logging.clone());
    let shadow = is_shadow();
    let config = Arc::new(config(&prepared, shadow));
    let elects = config.generic.leader_election.leader_elect && !shadow;
    let fence = elects.then(|| Fence::new(FenceClock::Boot));
    let connection = connect(&prepared, shadow, fence.clone()).await?;
    let clients = Clients::new(prepared.component, &connection, &prepared.options, &metrics, fence.clone());
    let Equipment { extensions, begin, serve: serve_more } = equipment;
    let informers = informers(&prepared, &clients, &metrics);
    let (decisions, debug, health) = (DecisionLog::default(), DebugPages::default(), Health::default());
    let shared = Shared {
        component: prepared.component.name,
        clock,
        config,
        gates: prepared.gates.clone(),
        informers: informers.clone(),
        decisions: decisions.clone(),
        debug: debug.clone(),
        metrics: metrics.clone(),
        server_ca: connection.certificate_authority(),
        extensions,
    };
    let identities = clients.identities(&prepared.options, shadow);
    let surroundings = Surroundings {
        informers: informers.clone(),
        identities: identities.clone(),
        shutdown: shutdown.clone(),
    };
    let begin = async move {
        if let Some(begin) = begin {
            begin(surroundings).await;
        }
    };
    let engine = Engine::new(shared, identities);
    let election = fence.map(|fence| Election::new(&prepared, &clients, clock, &metrics, fence));
    let set_verbosity = logging.map(|logging| logging.set_verbosity);
    let pages = pages(
        &prepared,
        election.as_ref(),
        (&health, &informers),
        (decisions, debug),
        &metrics,
        set_verbosity,
        clock,
    );
    let _listening = serve(&prepared, pages, &metrics).await?;
    let _listening_more = serve_more.map(|serve| serve(&metrics)).transpose()?.flatten();

    let grace = prepared.options.shutdown_timeout;
    let supervision = Supervision { leading: Leadership::always(), shutdown, grace, health };
    // Upstream serves first, too, and a candidate for the lease has time: if the process ended, a kubelet would restart it later
    // and later, and the cluster would be without controllers for minutes after its API server is back.
    let (client, patience) = (clients.named(""), (!elects).then_some(WAIT_FOR_SERVER));
    tokio::select! {
        biased;
        () = supervision.shutdown.wait() => return Ok(()),
        result = wait_for_server(&connection, &client, patience) => result?,
    }
    let Some(election) = election else {
        begin.await;
        engine.run(prepared.controllers.iter().copied(), &supervision).await;
        supervision.shutdown.wait().await;
        return Ok(());
    };
    lead(&prepared, &engine, supervision, election, informers, begin).await
}

fn announce(prepared: &Prepared) {
    tracing::info!(
        version = version::GIT_VERSION,
        flyball = version::FLYBALL,
        component = prepared.component.name,
        "starting the controller manager"
    );
    for notice in &prepared.notices {
        tracing::warn!("{notice}");
    }
}

fn metrics(prepared: &Prepared, logging: Option<Logging>) -> Metrics {
    let metrics = Metrics::new(prepared.metrics.clone());
    metrics.build_info(prepared.gates.versions());
    metrics.feature_gates(&prepared.gates);
    if let Some(logging) = logging {
        let dropped = move |m: &Metrics| m.counter(&LOG_DROPPED, &[]).at_least(logging.dropped() as f64);
        metrics.on_scrape(dropped);
    }
    metrics
}

fn config(prepared: &Prepared, shadow: bool) -> Config {
    let mut config = prepared.options.config.clone();
    if shadow {
        // These drivers are programs that change storage.
        config.persistent_volume_binder_controller.volume_configuration.flex_volume_plugin_dir.clear();
    }
    config
}

async fn connect(prepared: &Prepared, shadow: bool, fence: Option<Fence>) -> Result<Connection, RunError> {
    let connection = connect_main(&prepared.options, fence).await?;
    if !shadow {
        return Ok(connection);
    }
    tracing::warn!(
        "{SHADOW} is set: watching and deciding, but writing nothing and not taking part in leader election"
    );
    Ok(connection.shadowed())
}

fn informers(prepared: &Prepared, clients: &Clients, metrics: &Metrics) -> Informers {
    let period = prepared.options.config.generic.min_resync_period;
    let options = InformerOptions {
        resync: Some(period).filter(|period| !period.is_zero()),
        streams: prepared.gates.enabled(Gate::WatchListClient),
        ..InformerOptions::default()
    };
    let informers = Informers::new(clients.unlimited("shared-informers"), options);
    metrics.watch_informers(prepared.component.name, &informers);
    informers
}

/// Set by an environment variable, because the flags are exactly upstream's.
fn is_shadow() -> bool {
    std::env::var_os(SHADOW).is_some_and(|value| !value.is_empty() && value != "0")
}
