//! What the manager serves about itself, and to whom.

use std::{path::PathBuf, sync::Arc, time::Duration};

use flyball_client::{Client, ClientOptions, ConnectOptions, connect};
use flyball_runtime::{
    Chain, Clock, DebugPages, Health, Metrics,
    decisions::DecisionLog,
    election::{Elector, LeaseHealth},
    serving::{Authenticator, Authorizer, ClusterCa, Listening, Pages, Server, ServingError},
};

use crate::{clients::agent, component::Component, logging::SetVerbosity, prepare::Prepared, run::RunError};

/// Deadline of token and access reviews.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// The pages.
pub(crate) fn pages(
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
    let Component { configz, has_zpages, .. } = *prepared.component;
    let has_flagz = has_zpages && prepared.gates.enabled("ComponentFlagz");
    Pages {
        configz: configz(&prepared.options.config),
        flagz: has_flagz.then(|| prepared.flagz.clone()),
        statusz: has_zpages && prepared.gates.enabled("ComponentStatusz"),
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
pub(crate) async fn serve(
    prepared: &Prepared,
    pages: Pages,
    metrics: &Metrics,
) -> Result<Option<Listening>, RunError> {
    let (options, component) = (&prepared.options, prepared.component.name);
    if options.serving.port == 0 {
        return Ok(None);
    }
    let (authn, authz) = (&options.authentication, &options.authorization);
    let authn_client = review_client(component, &authn.kubeconfig, "--authentication-kubeconfig").await?;
    let authz_client = review_client(component, &authz.kubeconfig, "--authorization-kubeconfig").await?;
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
async fn review_client(
    component: &str,
    kubeconfig: &str,
    flag: &'static str,
) -> Result<Option<Client>, RunError> {
    if kubeconfig.is_empty() {
        return Ok(None);
    }
    let to = ConnectOptions { kubeconfig: Some(PathBuf::from(kubeconfig)), ..ConnectOptions::default() };
    let connection = connect(&to).await.map_err(|source| RunError::Config { flag, source })?;
    let options = ClientOptions {
        user_agent: agent(component, ""),
        qps: 0.0,
        timeout: REVIEW_TIMEOUT,
        ..ClientOptions::default()
    };
    Ok(Some(Client::with_watches(connection.transport(), connection.watch_transport(), options)))
}
