//! The process from start to end: connect, fill the caches, lead, run the controllers.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use flyball_cache::{InformerOptions, Informers};
use flyball_client::{Client, ClientOptions, ConnectOptions, Connection, Identities, connect, user_agent};
use flyball_runtime::decisions::DecisionLog;
use flyball_runtime::gates::Gates;
use flyball_runtime::{Clock, Health, Metrics, Orders, Shared, Signal};

use crate::engine::Engine;
use crate::options::Options;
use crate::select::{Choice, canonical, choose};
use crate::table::{CONTROLLERS, Controller};

/// Runs the controller manager until it is told to stop.
pub async fn run(options: Options, gates: Gates) -> anyhow::Result<()> {
    let connection = connect(&connect_options(&options)).await?;
    let list = canonical(&options.controllers)?;
    let chosen = chosen(&list, &gates);
    let identities = identities(&options, &connection);
    let informers = informers(&options, &connection);
    let shared = Shared {
        clock: Clock::system(),
        config: Arc::new(options.config.clone()),
        gates,
        informers,
        decisions: DecisionLog::default(),
        metrics: Metrics::default(),
    };
    let (stop, shutdown) = Signal::new();
    let orders = Orders {
        leading: Signal::already(),
        shutdown,
        grace: options.shutdown_timeout,
        health: Health::default(),
    };
    let engine = Engine::new(shared, identities);
    tokio::select! {
        () = engine.run(chosen, &orders) => {}
        outcome = tokio::signal::ctrl_c() => outcome.context("waiting for a signal")?,
    }
    stop.give();
    Ok(())
}

fn connect_options(options: &Options) -> ConnectOptions {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    ConnectOptions {
        kubeconfig: given(&options.config.generic.client_connection.kubeconfig).map(PathBuf::from),
        master: given(&options.master),
        context: None,
    }
}

/// The controllers that are to run; why others do not is logged.
fn chosen(list: &[String], gates: &Gates) -> Vec<&'static Controller> {
    let runs = |controller: &&Controller| match choose(controller, list, gates) {
        Choice::Run => true,
        Choice::Missing => {
            tracing::warn!(
                controller = controller.name,
                "this controller is not written yet; nobody does its work"
            );
            false
        }
        Choice::GateOff(gate) => {
            tracing::info!(controller = controller.name, gate, "not started: its feature gate is off");
            false
        }
        Choice::NotListed | Choice::Cloud => false,
    };
    CONTROLLERS.iter().filter(runs).collect()
}

fn client_options(options: &Options, agent: String) -> ClientOptions {
    let connection = &options.config.generic.client_connection;
    let burst = u32::try_from(connection.burst).unwrap_or(1);
    ClientOptions { user_agent: agent, qps: connection.qps.into(), burst, ..ClientOptions::default() }
}

fn agent() -> String {
    user_agent(flyball_runtime::version::GIT_VERSION, flyball_runtime::version::FLYBALL, "")
}

fn identities(options: &Options, connection: &Connection) -> Identities {
    let main = Client::new(connection.transport(), client_options(options, agent()));
    match options.config.kube_cloud_shared.use_service_account_credentials {
        true => Identities::per_account(main, connection.anonymous_transport(), agent()),
        false => Identities::shared(main, agent()),
    }
}

fn informers(options: &Options, connection: &Connection) -> Informers {
    let agent = format!("{}/shared-informers", agent());
    let unlimited = ClientOptions { qps: 0.0, ..client_options(options, agent) };
    let client = Client::with_watches(connection.transport(), connection.watch_transport(), unlimited);
    Informers::new(client, InformerOptions::default())
}
