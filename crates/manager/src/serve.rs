//! The HTTPS server of the manager.

use std::{path::PathBuf, sync::Arc, time::Duration};

use flyball_cache::Informers;
use flyball_client::{Client, ClientOptions, ConnectOptions, connect};
use flyball_election::{Candidate, CandidateHealth, LeaseHealth};
use flyball_runtime::{
    Chain, Clock, DebugPages, Health, Insight, Metrics, Shared, decisions::DecisionLog, gates::Gate,
    metrics::Gauge,
};
use flyball_serving::{
    AuthenticationOptions, Authenticator, Authorizer, ClusterCa, Heartbeat, Listening, Mounted, Pages,
    Server, ServingError,
};
use flyball_ui::{Sources, Ui};
use futures::FutureExt as _;
use tokio::runtime::Handle;

use crate::{
    cache_remark::CacheRemark, clients::agent, component::Component, lead::Election, logging::SetVerbosity,
    prepare::Prepared, run::RunError,
};

/// The health check that carries the [`CacheRemark`]. It is there only if there is one, and never fails.
const INFORMERS: &str = "informers";
/// Deadline of token and access reviews.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn pages(
    prepared: &Prepared,
    election: Option<&Election>,
    (health, informers): (&Health, &Informers),
    (decisions, debug): (DecisionLog, DebugPages),
    metrics: &Metrics,
    set_verbosity: Option<SetVerbosity>,
    clock: Clock,
) -> Pages {
    let lease = election.map(|election| election.main.health());
    let candidate = election.and_then(|election| election.candidate.as_ref()).map(Candidate::health);
    let (health, heart) = (health.clone(), Heartbeat::start());
    let remarked = health.clone();
    let caches = Arc::new(CacheRemark::new(informers.clone()));
    let remarks = caches.clone();
    let checks = move || {
        let lease = lease.iter().map(|lease| (LeaseHealth::NAME.to_owned(), lease.check()));
        let candidate = candidate.iter().map(|health| (CandidateHealth::NAME.to_owned(), health.check()));
        let controllers = health.checks().into_iter().map(|(name, state)| (name.to_owned(), state));
        // Only to carry its remark: otherwise the page has the same checks as upstream's.
        let caches = caches.get().map(|_| (INFORMERS.to_owned(), Ok(())));
        lease.chain(candidate).chain(controllers).chain(caches).chain(heart.check()).collect()
    };
    let Component { configz, has_zpages, .. } = *prepared.component;
    let has_flagz = has_zpages && prepared.gates.enabled(Gate::ComponentFlagz);
    let has_statusz = has_zpages && prepared.gates.enabled(Gate::ComponentStatusz);
    Pages {
        configz: configz(&prepared.options.config),
        flagz: has_flagz.then(|| prepared.flagz.clone()),
        statusz: has_statusz.then(|| prepared.gates.versions().emulated.to_string()),
        debug: prepared.options.config.generic.debugging.enable_profiling,
        metrics: metrics.clone(),
        checks: Arc::new(checks),
        remarks: Arc::new(move || {
            let caches = remarks.get().map(|remark| (INFORMERS.to_owned(), remark));
            let controllers = remarked.remarks().into_iter().map(|(name, remark)| (name.to_owned(), remark));
            controllers.chain(caches).collect()
        }),
        decisions: Some(decisions),
        mounted: None,
        controllers: debug,
        set_verbosity,
        now: Arc::new(move || clock.now()),
    }
}

/// The maximum duration of an event stream of the live page. The page reconnects at once, and is authorized again. Shorter than
/// the idle timeout of connections, since a stream alone does not keep a connection open.
const STREAM_LASTS: Duration = Duration::from_secs(80);

/// The live page, which shows what `/metrics` and `/debug/decisions` show, and explains objects as `flyball why` does.
pub(crate) fn live_page(
    shared: &Shared,
    insight: &Insight,
    health: &Health,
    leads: Option<Gauge>,
    client: Client,
) -> Mounted {
    let sources = Sources {
        component: shared.component,
        clock: shared.clock,
        informers: shared.informers.clone(),
        insight: insight.clone(),
        health: health.clone(),
        decisions: shared.decisions.clone(),
        client,
        leads: Arc::new(move || leads.as_ref().map(|leads| leads.get() == 1.0)),
        acts: None,
        stream_lasts: STREAM_LASTS,
    };
    let ui = Ui::new(sources, Handle::current());
    let answer = move |head| {
        let ui = ui.clone();
        async move { ui.respond(&head).await }.boxed()
    };
    Mounted { path: flyball_ui::PATH, answer: Arc::new(answer) }
}

/// Sets up authentication, authorization and the listener.
pub(crate) async fn serve(
    prepared: &Prepared,
    pages: Pages,
    metrics: &Metrics,
) -> Result<Option<Listening>, RunError> {
    let (options, component, gates) = (&prepared.options, prepared.component.name, &prepared.gates);
    if options.serving.port == 0 {
        return Ok(None);
    }
    let (authn, authz) = (&options.authentication, &options.authorization);
    let authn_client = review_client(component, &authn.kubeconfig, "--authentication-kubeconfig").await?;
    let authz_client = review_client(component, &authz.kubeconfig, "--authorization-kubeconfig").await?;
    let cluster = cluster_ca(authn, authn_client.as_ref()).await?;
    let uid_from_certificate = gates.enabled(Gate::AllowParsingUserUIDFromCertAuth);
    let authn = AuthenticationOptions { uid_from_certificate, ..authn.clone() };
    let authenticator =
        Authenticator::new(&authn, authn_client, cluster, metrics.clone()).map_err(ServingError::Options)?;
    let authorizer = Authorizer::new(authz, authz_client, metrics.clone());
    let server = Server::new(pages, authenticator, authorizer)
        .closing_on_strangers(gates.enabled(Gate::UnauthenticatedHTTP2DOSMitigation));
    let listening = server.listen(&options.serving)?;
    if let Some(listening) = &listening {
        tracing::info!(address = %listening.address, "serving");
    }
    Ok(listening)
}

/// Whether the cluster's own CAs are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lookup {
    /// No: all CAs are in files, or the look-up is disabled.
    None,
    Optional,
    /// The process does not start without them.
    Required,
}

/// Upstream: apiserver/pkg/server/options/authentication.go, ApplyTo: the client CA is watched, and may appear later; only the
/// configuration of front proxies is read at the start.
fn lookup(authn: &AuthenticationOptions) -> Lookup {
    let (clients, proxies) = (authn.client_ca_file.is_empty(), authn.requestheader_client_ca_file.is_empty());
    match (authn.skip_lookup, clients, proxies) {
        (true, ..) | (_, false, false) => Lookup::None,
        (_, _, true) if !authn.tolerate_lookup_failure => Lookup::Required,
        _ => Lookup::Optional,
    }
}

/// The CAs that the cluster publishes, as far as flags do not set them.
async fn cluster_ca(
    authn: &AuthenticationOptions,
    client: Option<&Client>,
) -> Result<Option<ClusterCa>, RunError> {
    let lookup = lookup(authn);
    if lookup == Lookup::None {
        return Ok(None);
    }
    let Some(client) = client else {
        tracing::warn!(
            "no --authentication-kubeconfig: neither bearer tokens nor the cluster's client certificates are known"
        );
        return Ok(None);
    };
    let ca = ClusterCa::default();
    match ca.read(client).await {
        Ok(()) => {}
        Err(error) if lookup == Lookup::Optional => {
            tracing::warn!(error = %Chain(&error), "cannot read the cluster's client CA; continuing without it");
        }
        Err(error) => return Err(RunError::ClientCa(error)),
    }
    tokio::spawn(ca.clone().follow(client.clone()));
    Ok(Some(ca))
}

/// Where the credentials for reviews come from: a file, or the pod's service account.
fn credentials(kubeconfig: &str, is_pod: bool) -> Option<ConnectOptions> {
    let file = (!kubeconfig.is_empty()).then(|| PathBuf::from(kubeconfig));
    (file.is_some() || is_pod).then(|| ConnectOptions { kubeconfig: file, ..ConnectOptions::default() })
}

/// Whether the process runs in a pod, determined as in client-go.
fn is_pod() -> bool {
    ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"]
        .iter()
        .all(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// A client for reviews and for the published CAs. It has no rate limit: `serving::reviews` limits the reviews.
async fn review_client(
    component: &str,
    kubeconfig: &str,
    flag: &'static str,
) -> Result<Option<Client>, RunError> {
    let Some(to) = credentials(kubeconfig, is_pod()) else { return Ok(None) };
    let connection = match connect(&to).await {
        Ok(connection) => connection,
        // The flag is optional, so its replacement is, too.
        Err(error) if to.kubeconfig.is_none() => {
            tracing::warn!(error = %Chain(&error), flag, "cannot use the pod's service account instead of the flag");
            return Ok(None);
        }
        Err(source) => return Err(RunError::Config { flag, source }),
    };
    let options = ClientOptions { user_agent: agent(component, ""), qps: 0.0, ..ClientOptions::default() }
        .within(REVIEW_TIMEOUT);
    Ok(Some(Client::with_watches(connection.transport(), connection.watch_transport(), options)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_is_asked_for_cas_that_are_not_in_files() {
        use Lookup::{None, Optional, Required};
        #[rustfmt::skip]
        let table = [
            // client CA  proxies' CA  skip   tolerate  lookup
            ("",          "",          false, false,    Required),
            ("",          "",          false, true,     Optional),
            ("ca.crt",    "",          false, false,    Required),
            ("",          "proxy.crt", false, false,    Optional),
            ("ca.crt",    "proxy.crt", false, false,    None),
            ("",          "",          true,  false,    None),
        ];
        for (clients, proxies, skip_lookup, tolerate_lookup_failure, want) in table {
            let options = AuthenticationOptions {
                client_ca_file: clients.to_owned(),
                requestheader_client_ca_file: proxies.to_owned(),
                skip_lookup,
                tolerate_lookup_failure,
                ..AuthenticationOptions::default()
            };
            assert_eq!(lookup(&options), want, "{options:?}");
        }
    }

    #[test]
    fn without_a_kubeconfig_reviews_use_the_pods_service_account() {
        let file = |kubeconfig, is_pod| credentials(kubeconfig, is_pod).map(|options| options.kubeconfig);
        assert_eq!(file("", false), None);
        assert_eq!(file("", true), Some(None));
        assert_eq!(file("a.conf", true), Some(Some(PathBuf::from("a.conf"))));
    }
}
