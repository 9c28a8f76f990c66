//! The clients of the manager: one connection, with several user agents and rate limits.

use std::{path::PathBuf, sync::Arc, time::Duration};

use flyball_client::{
    Client, ClientOptions, ConnectOptions, Connection, Fence, Identities, connect, connect_to_lead,
    user_agent_of,
};
use flyball_election::{Candidate, Elector, Settings};
use flyball_runtime::{
    Chain, Clock, Metrics,
    events::{ObjectRef, Recorder},
    metrics::ClientMetrics,
    version::{self, Versions},
};
use tokio::time::{Instant, sleep};

use crate::{component::Component, options::Options, run::RunError};

/// How long a starting manager waits for an API server if it does no leader election, as upstream.
pub(crate) const WAIT_FOR_SERVER: Duration = Duration::from_secs(10);
/// While it waits: the pause between two checks, the deadline of one, and how often a failed one is logged.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
const LOG_INTERVAL: Duration = Duration::from_secs(15);
/// Used in place of a commit in user agents.
const COMMIT: &str = "flyball";

pub(crate) struct Clients {
    component: &'static str,
    connection: Connection,
    options: ClientOptions,
    lease_timeout: Duration,
}

impl Clients {
    pub(crate) fn new(
        component: &'static Component,
        connection: &Connection,
        options: &Options,
        metrics: &Metrics,
        fence: Option<Fence>,
    ) -> Self {
        let generic = &options.config.generic;
        let (qps, burst) = rate(generic.client_connection.qps, generic.client_connection.burst);
        let options = ClientOptions {
            user_agent: agent(component.name, ""),
            qps,
            burst,
            field_manager: Some(component.name.into()),
            observer: Some(Arc::new(ClientMetrics::new(metrics))),
            fence,
            protobuf: generic.client_connection.reads_protobuf(),
            ..ClientOptions::default()
        };
        Self {
            component: component.name,
            connection: connection.clone(),
            options,
            lease_timeout: generic.leader_election.renew_deadline / 2,
        }
    }

    /// The same for what is written under another lease.
    pub(crate) fn under(&self, fence: &Fence) -> Self {
        let options = ClientOptions { fence: Some(fence.clone()), ..self.options.clone() };
        let connection = self.connection.under(fence);
        Self { component: self.component, connection, options, lease_timeout: self.lease_timeout }
    }

    pub(crate) fn named(&self, name: &str) -> Client {
        self.with(ClientOptions { user_agent: agent(self.component, name), ..self.options.clone() })
    }

    /// For the caches, without a rate limit, so that the pages of lists do not wait for each other.
    pub(crate) fn unlimited(&self, name: &str) -> Client {
        let user_agent = agent(self.component, name);
        self.with(ClientOptions { user_agent, qps: 0.0, ..self.options.clone() })
    }

    /// For explanations on the live page, with a low rate limit of its own: viewers delay no controller.
    pub(crate) fn for_page(&self) -> Client {
        let user_agent = agent(self.component, "live-page");
        self.with(ClientOptions { user_agent, qps: 10.0, burst: 40, ..self.options.clone() })
    }

    fn with(&self, options: ClientOptions) -> Client {
        Client::with_watches(self.connection.transport(), self.connection.watch_transport(), options)
    }

    /// One identity for each controller, if the flags say so. A shadow has only its own, since it creates no accounts.
    pub(crate) fn identities(&self, options: &Options, shadow: bool) -> Identities {
        let agent = agent(self.component, "");
        let main = self.named("");
        match options.config.kube_cloud_shared.use_service_account_credentials && !shadow {
            true => Identities::per_account(main, self.connection.anonymous_transport(), agent),
            false => Identities::shared(main, agent),
        }
    }

    /// The candidate for the lease of this component, under the same identity as the elector.
    pub(crate) fn candidate(&self, identity: &str, versions: Versions, clock: Clock) -> Candidate {
        let versions = (version::BINARY.to_owned(), format!("{}.0", versions.emulated));
        let time = move || clock.now();
        Candidate::new(self.for_leases(), identity.to_owned(), self.component, versions, time)
    }

    /// A client with its own connections, which works without the lease.
    fn for_leases(&self) -> Client {
        let options = ClientOptions {
            user_agent: agent(self.component, "leader-election"),
            qps: 0.0,
            fence: None,
            ..self.options.clone()
        }
        .within(self.lease_timeout);
        let transport = self.connection.lease_transport().unwrap_or_else(|| self.connection.transport());
        Client::new(transport, options)
    }

    /// An elector with its own connections, which extends `fence` while it leads.
    pub(crate) fn elector(
        &self,
        settings: Settings,
        clock: Clock,
        metrics: &Metrics,
        fence: Fence,
    ) -> Elector {
        let client = self.for_leases();
        let (recorder, events) = Recorder::new(self.component, clock, self.named(self.component));
        tokio::spawn(events);
        Elector::new(settings, client, metrics.clone(), move || clock.now()).with_fence(fence).on_event(
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

/// The effective `--kube-api-qps` and `--kube-api-burst`. Upstream: client-go rest/config.go: zero stands for a default, and
/// only a negative rate means no limit.
fn rate(qps: f32, burst: i32) -> (f64, u32) {
    const DEFAULT: (f64, u32) = (5.0, 10);
    let qps = if qps == 0.0 { DEFAULT.0 } else { f64::from(qps) };
    let burst = if burst == 0 { DEFAULT.1 } else { u32::try_from(burst).unwrap_or_default() };
    (qps, burst)
}

/// The user agent of the manager.
pub(crate) fn agent(component: &str, suffix: &str) -> String {
    user_agent_of(component, version::GIT_VERSION, COMMIT, suffix)
}

/// Connects as the flags say; with a fence, for leader election.
pub(crate) async fn connect_main(options: &Options, fence: Option<Fence>) -> Result<Connection, RunError> {
    let kubeconfig = &options.config.generic.client_connection.kubeconfig;
    let flag = if kubeconfig.is_empty() && !options.master.is_empty() { "--master" } else { "--kubeconfig" };
    let to = ConnectOptions {
        kubeconfig: (!kubeconfig.is_empty()).then(|| PathBuf::from(kubeconfig)),
        master: (!options.master.is_empty()).then(|| options.master.clone()),
        context: None,
    };
    let connected = match fence {
        Some(fence) => connect_to_lead(&to, fence).await,
        None => connect(&to).await,
    };
    connected.map_err(|source| RunError::Config { flag, source })
}

/// Polls the server's health every second until it is healthy: it may still be starting. `patience` is the time limit; `None`
/// waits indefinitely.
pub(crate) async fn wait_for_server(
    connection: &Connection,
    client: &Client,
    patience: Option<Duration>,
) -> Result<(), RunError> {
    let start = Instant::now();
    let mut logged: Option<Instant> = None;
    loop {
        let limit = patience.map_or(CHECK_TIMEOUT, |patience| patience.saturating_sub(start.elapsed()));
        let unanswered =
            || flyball_client::Error::Deadline { what: "GET /healthz".into(), limit: start.elapsed() };
        let checked = tokio::time::timeout(limit.min(CHECK_TIMEOUT), client.get_raw("/healthz")).await;
        let error = match checked.unwrap_or_else(|_| Err(unanswered())) {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        if patience.is_some_and(|patience| start.elapsed() + CHECK_INTERVAL > patience) {
            let (server, origin) = (connection.server().to_owned(), connection.origin().to_owned());
            return Err(RunError::Server { server, origin, source: error });
        }
        if logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
            logged = Some(Instant::now());
            tracing::warn!(server = connection.server(), error = %Chain(&error), "waiting for the API server");
        }
        sleep(CHECK_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use bytes::Bytes;
    use flyball_client::{Body, Transport, TransportError};
    use futures::future::BoxFuture;

    use super::*;

    /// Refuses all requests until it trusts the client.
    #[derive(Default)]
    struct Suspicious(AtomicBool);

    impl Transport for Suspicious {
        fn send(
            &self,
            _: http::Request<Bytes>,
        ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
            let code = if self.0.load(Ordering::Relaxed) { 200 } else { 401 };
            let response = http::Response::builder().status(code).body(Body::default()).unwrap();
            Box::pin(std::future::ready(Ok(response)))
        }
    }

    /// As with a client certificate that expired while the process was not running: a candidate for the lease waits for another
    /// one, as upstream. Without leader election, upstream ends after ten seconds.
    #[tokio::test(start_paused = true)]
    async fn a_candidate_whose_credentials_are_refused_waits_until_they_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = dir.path().join("kubeconfig");
        let text = "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n\
             clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {}}]\n";
        std::fs::write(&kubeconfig, text).unwrap();
        let options = ConnectOptions { kubeconfig: Some(kubeconfig), ..ConnectOptions::default() };
        let connection = connect(&options).await.unwrap();
        let server = Arc::new(Suspicious::default());
        let client = Client::new(server.clone(), ClientOptions::default());

        let ended = wait_for_server(&connection, &client, Some(WAIT_FOR_SERVER)).await;
        let error = Chain(&ended.unwrap_err()).to_string();
        assert!(error.contains("http://127.0.0.1:1") && error.contains("provide credentials"), "{error}");

        let waiting = wait_for_server(&connection, &client, None);
        tokio::pin!(waiting);
        let hours = Duration::from_secs(12 * 60 * 60);
        assert!(tokio::time::timeout(hours, waiting.as_mut()).await.is_err(), "it waits");
        server.0.store(true, Ordering::Relaxed);
        tokio::time::timeout(2 * CHECK_INTERVAL, waiting).await.expect("it goes on").unwrap();
    }

    #[test]
    fn a_rate_of_zero_is_client_gos_default_and_only_a_negative_one_is_no_limit() {
        #[rustfmt::skip]
        let table = [
            // --kube-api-qps, --kube-api-burst, meaning (a client's negative rate is no limit)
            (20.0, 30, (20.0, 30)),
            (0.0,  30, (5.0, 30)),
            (0.0,  0,  (5.0, 10)),
            (-1.0, 0,  (-1.0, 10)),
            (0.5,  1,  (0.5, 1)),
        ];
        for (qps, burst, want) in table {
            assert_eq!(rate(qps, burst), want, "--kube-api-qps={qps} --kube-api-burst={burst}");
        }
    }
}
