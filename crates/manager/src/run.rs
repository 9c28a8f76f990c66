//! Runs a manager whose options are valid: connects to the API server, serves the port, takes part in leader election, runs the
//! controllers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flyball_cache::{InformerOptions, Informers};
use flyball_client::{ConfigError, Connection, Fence, FenceClock};
use flyball_election::Lost;
use flyball_journal::{Journal, Limits};
use flyball_runtime::{
    Clock, DebugPages, Insight, Leadership, Metrics, Shared, Signal, Supervision,
    config::{Config, Flyball},
    decisions::DecisionLog,
    gates::Gate,
    metrics::{LEADER_STATUS, LOG_DROPPED},
    version,
};
use flyball_serving::{LookupError, Pages, ServingError};

use crate::{
    clients::{Clients, WAIT_FOR_SERVER, connect_main, wait_for_server},
    engine::Engine,
    equipment::{End, Ending, Equipment, Foundation, LeaderContext},
    lead::{Election, Grace, Hooks, in_time, lead},
    logging::Logging,
    prepare::Prepared,
    serve::{live_page, pages, serve},
};

/// If set, this process plans and logs all decisions but writes nothing (a shadow beside another controller manager).
pub const SHADOW: &str = "FLYBALL_SHADOW";

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
    #[error("--flyball-journal-dir")]
    Journal(#[from] flyball_journal::OpenError),
    #[error(transparent)]
    Lost(#[from] Lost),
    /// Some controllers were cancelled at shutdown.
    #[error("controllers did not end within --controller-shutdown-timeout ({0:?})")]
    ShutdownTimeout(Duration),
}

/// Runs until shutdown or until the lease is lost.
pub async fn run(
    prepared: Prepared,
    foundation: Foundation,
    equipment: Equipment,
    logging: Option<Logging>,
) -> Result<(), RunError> {
    announce(&prepared);
    let Foundation { clock, metrics, health, shutdown, unwritten, .. } = foundation;
    let shadow = is_shadow();
    let config = Arc::new(config(&prepared, shadow));
    let elects = config.generic.leader_election.leader_elect && !shadow;
    let fence = elects.then(|| Fence::new(FenceClock::Boot));
    // Credential plugins and an API server that does not respond may take minutes.
    let connecting = connect(&prepared, shadow, fence.clone());
    let Some(connection) = before(&shutdown, connecting).await? else { return Ok(()) };
    let clients = Clients::new(prepared.component, &connection, &prepared.options, &metrics, fence.clone());
    let Equipment { extensions, begin, end, serve: serve_more } = equipment;
    tokio::spawn(unwritten.write(clients.named("")));
    let informers = informers(&prepared, &clients, &metrics);
    let (decisions, debug) = (DecisionLog::default(), DebugPages::default());
    let journal = journal(&config, &decisions, clock)?;
    let insight = Insight::default();
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
        extensions: extensions.with(insight.clone()),
    };
    let identities = clients.identities(&prepared.options, shadow);
    let context = LeaderContext {
        informers: informers.clone(),
        identities: identities.clone(),
        fence: fence.clone().unwrap_or_else(|| Fence::new(FenceClock::Boot)),
        shutdown: shutdown.clone(),
    };
    let begin = async move {
        if let Some(begin) = begin {
            begin(context).await;
        }
    };
    let engine = Engine::new(shared.clone(), identities);
    let election = fence.map(|fence| Election::new(&prepared, &clients, clock, &metrics, fence));
    let set_verbosity = logging.map(|logging| logging.set_verbosity);
    let lease = &prepared.options.config.generic.leader_election.resource_name;
    let leads = elects.then(|| metrics.gauge(&LEADER_STATUS, &[lease]));
    let page = live_page(&shared, &insight, &health, leads, clients.for_page());
    let pages = pages(
        &prepared,
        election.as_ref(),
        (&health, &informers),
        (decisions, debug),
        &metrics,
        set_verbosity,
        clock,
    );
    let pages = Pages { mounted: Some(page), ..pages };
    let Some(_listening) = before(&shutdown, serve(&prepared, pages, &metrics)).await? else { return Ok(()) };
    let _listening_more = serve_more.map(|serve| serve(&metrics)).transpose()?.flatten();

    let grace = Grace::new(prepared.options.shutdown_timeout);
    let supervision = Supervision { leading: Leadership::always(), shutdown, grace: grace.all(), health };
    // As upstream, serve before the API server responds. With leader election there is no time limit: if the process exited, the
    // kubelet's restart backoff would leave the cluster without controllers for minutes after the API server is back.
    let (client, patience) = (clients.named(""), (!elects).then_some(WAIT_FOR_SERVER));
    let responds = wait_for_server(&connection, &client, patience);
    if before(&supervision.shutdown, responds).await?.is_none() {
        return Ok(());
    }
    let outcome = match election {
        Some(election) => {
            lead(&prepared, &engine, supervision, election, informers, Hooks { begin, end }).await
        }
        None => {
            begin.await;
            run_alone(&prepared, &engine, &supervision, &grace, end).await
        }
    };
    if let Some(journal) = journal {
        journal.finish().await;
    }
    outcome
}

/// Runs controllers without leader election, until shutdown.
async fn run_alone(
    prepared: &Prepared,
    engine: &Engine,
    supervision: &Supervision,
    grace: &Grace,
    end: Option<End>,
) -> Result<(), RunError> {
    let run = async {
        let ended = engine.run(prepared.controllers.iter().copied(), supervision).await;
        supervision.shutdown.wait().await;
        ended
    };
    let ended = tokio::select! {
        biased;
        ended = grace.watch(&supervision.shutdown) => ended,
        ended = run => ended,
    };
    Hooks::<()>::finish(end, Ending::Shutdown, grace.left()).await;
    in_time(ended, prepared)
}

/// The journal of decisions, if there is one.
fn journal(
    config: &Config,
    decisions: &DecisionLog,
    clock: Clock,
) -> Result<Option<Journal>, flyball_journal::OpenError> {
    let Flyball { journal_dir, journal_size, journal_age, .. } = &config.flyball;
    if journal_dir.is_empty() {
        return Ok(None);
    }
    let limits = Limits { size: u64::try_from(*journal_size).unwrap_or(1) << 20, age: *journal_age };
    Journal::follow(decisions, Path::new(journal_dir), limits, clock).map(Some)
}

/// A step of the start; `None` if the process is to end before it is done.
async fn before<T>(
    shutdown: &Signal,
    step: impl Future<Output = Result<T, RunError>>,
) -> Result<Option<T>, RunError> {
    tokio::select! {
        biased;
        () = shutdown.wait() => Ok(None),
        done = step => done.map(Some),
    }
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

/// The metrics of the process, with those that are known from the start.
pub(crate) fn metrics(prepared: &Prepared, logging: Option<Logging>) -> Metrics {
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

/// Whether this process writes nothing to the API server. Set by an environment variable, because the flags are exactly upstream's.
pub fn is_shadow() -> bool {
    std::env::var_os(SHADOW).is_some_and(|value| !value.is_empty() && value != "0")
}

#[cfg(test)]
mod tests {
    use crate::{KUBE_CONTROLLER_MANAGER, flags::Invocation, prepare};

    use super::*;

    /// The kubelet kills a process half a minute after SIGTERM.
    #[tokio::test]
    async fn a_credential_plugin_that_hangs_does_not_delay_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("kubeconfig");
        let exec = "{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sleep, args: ['1000']}";
        let text = format!(
            "current-context: x\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:1'}}}}]\nusers: [{{name: u, user: {{exec: {exec}}}}}]\n"
        );
        std::fs::write(&file, text).unwrap();
        let arguments = [format!("--kubeconfig={}", file.display()), "--secure-port=0".to_owned()];
        let Ok(Invocation::Run(parsed)) = KUBE_CONTROLLER_MANAGER.parse(&arguments) else { panic!("{exec}") };
        let prepared = prepare(*parsed).unwrap();
        let (stop, foundation) = Foundation::new("test", Metrics::default());
        let running = tokio::spawn(run(prepared, foundation, Equipment::default(), None));
        stop.set();
        let ended = tokio::time::timeout(Duration::from_secs(20), running).await;
        ended.expect("it does not wait for the plugin").unwrap().unwrap();
    }
}
