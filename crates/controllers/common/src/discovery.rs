//! Repeated discovery, for controllers that watch every resource that the server serves.

use std::sync::Arc;
use std::time::Duration;

use flyball_cache::AnyInformer;
use flyball_client::{Client, Discovery};
use flyball_runtime::Chain;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// How often discovery is repeated.
const PERIOD: Duration = Duration::from_secs(30);
/// The pause after a discovery that failed.
const AFTER_FAILURE: Duration = Duration::from_secs(5);
/// How long after a change of a definition discovery is repeated: the server needs some time to serve the resource.
const SOON: Duration = Duration::from_secs(1);

/// What is done with the resources that the server serves.
pub trait Follow: Send + Sync {
    /// Starts and stops informers, so that what is to be watched is.
    fn follow(&self, discovery: &Discovery) -> impl Future<Output = ()> + Send;

    /// Discovery has failed; what is watched stays.
    fn failed(&self) {}

    /// A round has ended, and [`Coverage`] shows what it covers.
    fn ended(&self) {}
}

/// The rounds of discovery of one controller.
pub struct Rounds {
    client: Client,
    state: Arc<State>,
}

/// Whether the latest round still shows what the server serves. Cheap to clone.
#[derive(Clone)]
pub struct Coverage(Arc<State>);

#[derive(Default)]
struct State {
    known: Mutex<Known>,
    outdated: Notify,
}

#[derive(Default)]
struct Known {
    /// How many changes the latest round covers; `None` if it has failed.
    covered: Option<u64>,
    /// How often it became outdated. What changes during a round may not be in it.
    changes: u64,
}

/// A moment: what had changed by then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mark(pub u64);

impl Rounds {
    /// Rounds with a rate limit of their own, so that discovery does not wait behind writes.
    pub fn new(client: &Client) -> Self {
        Self { client: client.with_options(client.options().clone()), state: Arc::default() }
    }

    pub fn coverage(&self) -> Coverage {
        Coverage(self.state.clone())
    }

    /// One round; returns whether discovery could be read.
    pub async fn once(&self, follow: &impl Follow) -> bool {
        let changes = self.state.known.lock().changes;
        let discovery = read(&self.client).await;
        match &discovery {
            Some(discovery) => follow.follow(discovery).await,
            None => follow.failed(),
        }
        self.state.known.lock().covered = discovery.is_some().then_some(changes);
        follow.ended();
        discovery.is_some()
    }

    /// Rounds until one succeeds.
    pub async fn until_read(&self, follow: &impl Follow) {
        while !self.once(follow).await {
            tokio::time::sleep(AFTER_FAILURE).await;
        }
    }

    /// Rounds as long as the controller runs: periodically, earlier after one that failed, and soon after what is known has become
    /// outdated.
    pub async fn repeat(&self, follow: &impl Follow) {
        let mut pause = self.pause();
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep(pause) => {}
                () = self.state.outdated.notified() => tokio::time::sleep(SOON).await,
            }
            self.once(follow).await;
            pause = self.pause();
        }
    }

    fn pause(&self) -> Duration {
        if self.coverage().is_current() { PERIOD } else { AFTER_FAILURE }
    }
}

impl Coverage {
    /// Whether the latest round succeeded, and nothing has changed since that a controller knows of.
    pub fn is_current(&self) -> bool {
        self.covers(self.mark())
    }

    pub fn mark(&self) -> Mark {
        Mark(self.0.known.lock().changes)
    }

    /// Whether the latest round succeeded and covers what had changed by then. What goes on changing does not delay that.
    pub fn covers(&self, mark: Mark) -> bool {
        self.0.known.lock().covered.is_some_and(|covered| covered >= mark.0)
    }

    /// Has discovery repeated soon: a definition of resources has changed.
    pub fn expire(&self) {
        self.0.known.lock().changes += 1;
        self.0.outdated.notify_one();
    }
}

/// Waits until informers have their lists, at most this long. Returns those that are late; the caller goes on without them.
pub async fn filled(informers: &[Arc<dyn AnyInformer>], patience: Duration) -> Vec<String> {
    let lists = join_all(informers.iter().map(|informer| informer.synced()));
    if tokio::time::timeout(patience, lists).await.is_ok() {
        return vec![];
    }
    let late = informers.iter().filter(|informer| !informer.has_synced());
    late.map(|informer| informer.resource().to_string()).collect()
}

/// What the server serves; `None`, with a line in the log, if that cannot be read or is nothing.
async fn read(client: &Client) -> Option<Discovery> {
    let discovery = match client.discover().await {
        Ok(discovery) if !discovery.resources.is_empty() => discovery,
        Ok(_) => {
            tracing::warn!("discovery returned no resources; informers stay as they are");
            return None;
        }
        Err(error) => {
            tracing::warn!(error = %Chain(&error), "discovery failed; informers stay as they are");
            return None;
        }
    };
    for failure in &discovery.failures {
        let (group_version, problem) = (&failure.group_version, &failure.problem);
        tracing::warn!(group_version, problem, "a group version cannot be discovered");
    }
    Some(discovery)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use bytes::Bytes;
    use flyball_client::{Body, ClientOptions, Transport, TransportError};
    use futures::future::BoxFuture;
    use http_body_util::{BodyExt as _, Full};
    use tokio::time::Instant;

    use super::*;

    /// Answers discovery with pods, or with an error as often as it is told to.
    #[derive(Default)]
    struct Server {
        failures: Mutex<u32>,
    }

    impl Transport for Server {
        fn send(
            &self,
            request: http::Request<Bytes>,
        ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
            let is_core = request.uri().path() == "/api";
            let mut failures = self.failures.lock();
            let code = if *failures > 0 { 403 } else { 200 };
            *failures = failures.saturating_sub(u32::from(is_core));
            let resource = r#"{"resource":"pods","responseKind":{"group":"","version":"v1","kind":"Pod"},"scope":"Namespaced","verbs":["list"]}"#;
            let group =
                format!(r#"{{"metadata":{{}},"versions":[{{"version":"v1","resources":[{resource}]}}]}}"#);
            let items = if is_core { group } else { String::new() };
            let body = format!(
                r#"{{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{items}]}}"#
            );
            let content = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
            let body = Full::from(body).map_err(|never| match never {}).boxed_unsync();
            let answer = http::Response::builder().status(code).header("content-type", content).body(body);
            Box::pin(async move { Ok(answer.expect("a response")) })
        }

        fn host(&self) -> &str {
            "test"
        }
    }

    /// Records the second of each round, and ends what is known in some.
    struct Log {
        start: Instant,
        rounds: Mutex<Vec<String>>,
        coverage: Coverage,
        ends: Mutex<VecDeque<bool>>,
    }

    impl Log {
        fn add(&self, what: &str) {
            let second = self.start.elapsed().as_secs();
            self.rounds.lock().push(format!("{what}@{second}"));
        }
    }

    impl Follow for Log {
        async fn follow(&self, discovery: &Discovery) {
            self.add(&discovery.resources[0].resource.plural);
            if self.ends.lock().pop_front() == Some(true) {
                self.coverage.expire();
            }
        }

        fn failed(&self) {
            self.add("failed");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rounds_follow_soon_on_failures_and_changes_and_else_every_half_minute() {
        let server = Arc::new(Server::default());
        *server.failures.lock() = 2;
        let rounds = Rounds::new(&Client::new(server, ClientOptions::default()));
        let coverage = rounds.coverage();
        let log = Log {
            start: Instant::now(),
            rounds: Mutex::default(),
            coverage: coverage.clone(),
            ends: Mutex::new([false, true].into()),
        };
        assert!(!coverage.is_current(), "nothing was read yet");
        rounds.until_read(&log).await;
        assert!(coverage.is_current());
        let all = tokio::time::timeout(Duration::from_secs(65), rounds.repeat(&log)).await;
        assert!(all.is_err(), "rounds go on");
        let want = ["failed@0", "failed@5", "pods@10", "pods@40", "pods@41", "pods@71"];
        assert_eq!(
            *log.rounds.lock(),
            want,
            "the definition that changed at 40 may not have been in that round"
        );
        assert!(coverage.is_current());
        coverage.expire();
        assert!(!coverage.is_current());
    }

    /// Notes whether a mark is covered at the end of each round, while something changes in every round.
    struct Restless {
        coverage: Coverage,
        mark: Mutex<Mark>,
        ended: Mutex<Vec<bool>>,
    }

    impl Follow for Restless {
        async fn follow(&self, _: &Discovery) {
            self.coverage.expire();
        }

        fn ended(&self) {
            assert!(!self.coverage.is_current());
            self.ended.lock().push(self.coverage.covers(*self.mark.lock()));
        }
    }

    #[tokio::test]
    async fn one_round_covers_what_had_changed_before_it_whatever_changes_since() {
        let server = Arc::new(Server::default());
        let rounds = Rounds::new(&Client::new(server.clone(), ClientOptions::default()));
        let coverage = rounds.coverage();
        let (mark, ended) = (Mutex::new(coverage.mark()), Mutex::default());
        let follow = Restless { coverage: coverage.clone(), mark, ended };
        rounds.once(&follow).await;
        *follow.mark.lock() = coverage.mark();
        assert!(!coverage.covers(coverage.mark()), "it changed during the round");
        *server.failures.lock() = 1;
        rounds.once(&follow).await;
        rounds.once(&follow).await;
        assert_eq!(*follow.ended.lock(), [true, false, true], "the second round has failed");
    }
}
