//! The thread of a cluster: it alone moves the cluster's time.
//!
//! The runtime has one thread and paused time. Such time moves only when no task can run, and then to the next timer, so "nothing
//! can run at this instant" needs no guess: a short sleep ends exactly then. Between two commands a [`Standstill`] keeps the time
//! where it is.

use std::time::Duration;

use flyball_api::Timestamp;
use flyball_apiserver::{ApiServer, Record, Standstill};
use flyball_playground::cluster::{self, Cluster, ClusterService, KUBELETS, Options, StartError};
use flyball_runtime::Clock;
use flyball_runtime::decisions::DecisionLog;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

/// No timer is shorter.
const TICK: Duration = Duration::from_millis(1);
/// How far time moves at once while a request is open.
const STEP: Duration = Duration::from_millis(100);
/// A cluster in which nothing is written for so long has settled. Longer than what a controller or a simulated node waits for in
/// the midst of its work: pods start after half a second and run to completion in two, Jobs are synced a second after a pod.
const QUIET: Duration = Duration::from_secs(3);
/// A cluster that has not settled by then does not settle.
const LIMIT: Duration = Duration::from_secs(600);
/// How many of the last writes an error shows.
const SHOWN: usize = 10;
const HOUR: i64 = 3600;

pub(crate) enum Command {
    Advance(Duration, oneshot::Sender<()>),
    Settle(oneshot::Sender<Result<(), Unsettled>>),
    Stop(oneshot::Sender<()>),
}

/// The writes that did not end.
#[derive(Debug)]
pub(crate) struct Unsettled {
    pub(crate) within: Duration,
    pub(crate) writes: String,
}

/// What a started cluster is used through.
pub(crate) struct Started {
    pub(crate) service: ClusterService,
    pub(crate) runtime: Handle,
    pub(crate) clock: Clock,
    pub(crate) url: Option<String>,
    pub(crate) kubeconfig: Option<String>,
    pub(crate) notices: Vec<String>,
}

/// Why the thread ended before the cluster had started.
pub(crate) enum Failure {
    Runtime(std::io::Error),
    Cluster(StartError),
}

type Ready = oneshot::Sender<Result<Started, Failure>>;

/// Runs a cluster on this thread until `gone` resolves or it is told to stop.
pub(crate) fn run(
    options: Options,
    start: Option<Timestamp>,
    ready: Ready,
    commands: mpsc::Receiver<Command>,
    gone: oneshot::Receiver<()>,
) {
    // Connections have their own runtime, with real time.
    let outside = options.port.map(|_| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("flyball-tls")
            .enable_all()
            .build()
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let (runtime, outside) = match (runtime, outside.transpose()) {
        (Ok(runtime), Ok(outside)) => (runtime, outside),
        (Err(error), _) | (_, Err(error)) => return drop(ready.send(Err(Failure::Runtime(error)))),
    };
    let options = Options { outside: outside.as_ref().map(|outside| outside.handle().clone()), ..options };
    runtime.block_on(async {
        tokio::select! {
            () = live(options, start, ready, commands) => {}
            _ = gone => {}
        }
    });
    runtime.shutdown_background();
    if let Some(outside) = outside {
        outside.shutdown_background();
    }
}

async fn live(
    options: Options,
    start: Option<Timestamp>,
    ready: Ready,
    mut commands: mpsc::Receiver<Command>,
) {
    let clock = Clock::virtual_from(start.unwrap_or_else(full_hour));
    let cluster = match Cluster::start(Options { clock, ..options }).await {
        Ok(cluster) => cluster,
        Err(error) => return drop(ready.send(Err(Failure::Cluster(error)))),
    };
    let mut driver = Driver::new(&cluster, clock);
    // After this, namespaces have their default service accounts.
    let _ = driver.settle().await;
    let mut standstill = Some(Standstill::begin(None));
    let kubeconfig = match cluster.kubeconfig() {
        Ok(kubeconfig) => kubeconfig,
        Err(error) => return drop(ready.send(Err(Failure::Cluster(error)))),
    };
    let started = Started {
        service: cluster.service(),
        runtime: Handle::current(),
        clock,
        url: cluster.address().map(|address| format!("https://{address}")),
        kubeconfig: kubeconfig.as_deref().and_then(as_json),
        notices: cluster.controllers().notices.clone(),
    };
    if ready.send(Ok(started)).is_err() {
        return;
    }
    let mut writes = cluster.service().writes();
    loop {
        let command = tokio::select! {
            command = commands.recv() => Some(command),
            changed = writes.changed() => match changed {
                Ok(()) => None,
                Err(_) => return,
            },
        };
        drop(standstill.take());
        match command {
            // Somebody writes: the cluster goes on with what follows from it.
            None => drop(driver.settle().await),
            Some(Some(Command::Settle(done))) => drop(done.send(driver.settle().await)),
            Some(Some(Command::Advance(by, done))) => {
                driver.advance(by).await;
                let _ = done.send(());
                let _ = driver.settle().await;
            }
            Some(Some(Command::Stop(done))) => {
                cluster.stop().await;
                let _ = done.send(());
                return;
            }
            Some(None) => return,
        }
        standstill = Some(Standstill::begin(None));
    }
}

/// The same document as JSON, which is YAML as well: not every language has a parser for YAML.
fn as_json(yaml: &str) -> Option<String> {
    let document: serde_json::Value = serde_yaml::from_str(yaml).ok()?;
    serde_json::to_string_pretty(&document).ok()
}

/// The real time, rounded down: what is due each hour is due in an hour.
fn full_hour() -> Timestamp {
    let now = Clock::system().now().as_second();
    Timestamp::from_second(now - now.rem_euclid(HOUR)).unwrap_or_default()
}

struct Driver {
    server: ApiServer,
    service: ClusterService,
    clock: Clock,
    decisions: DecisionLog,
    /// How much of the audit log has been read.
    read: u64,
    last_write: Timestamp,
}

impl Driver {
    fn new(cluster: &cluster::Cluster, clock: Clock) -> Self {
        let (server, decisions) = (cluster.server().clone(), cluster.decisions().clone());
        Self { server, service: cluster.service(), clock, decisions, read: 0, last_write: clock.now() }
    }

    async fn advance(&mut self, by: Duration) {
        sleep(by).await;
        // What became due at the last instant is done, too.
        sleep(TICK).await;
    }

    /// Lets time pass until nothing was written for [`QUIET`]. Time does not move if that is so already.
    async fn settle(&mut self) -> Result<(), Unsettled> {
        let limit = Instant::now() + LIMIT;
        loop {
            sleep(TICK).await;
            self.note_writes();
            let last = self.last_write.checked_add(QUIET).unwrap_or(Timestamp::MAX);
            let left = self.clock.until(last);
            if left.is_zero() && self.service.writes().borrow().open == 0 {
                return Ok(());
            }
            if Instant::now() >= limit {
                return Err(Unsettled { within: LIMIT, writes: self.last_writes() });
            }
            // A request that is still open waits for a webhook, or for the timeout of its call.
            sleep(if left.is_zero() { STEP } else { left }).await;
        }
    }

    fn note_writes(&mut self) {
        let (records, next) = self.server.audit().since(self.read);
        self.read = next;
        let last = records.iter().rev().find(|record| is_work(record)).map(|record| record.at);
        self.last_write = self.last_write.max(last.unwrap_or(self.last_write));
    }

    fn last_writes(&self) -> String {
        let lines = self.decisions.recent(SHOWN, |_| true).into_iter().map(|decision| {
            let (who, action, target, why) =
                (decision.controller, decision.action, decision.target, decision.why);
            format!("  {who}: {action} {target}: {why}\n")
        });
        lines.collect()
    }
}

/// Whether a request shows that somebody has work: a write, but not one that goes on for ever or only reports.
fn is_work(record: &Record) -> bool {
    let is_write = !matches!(record.verb, "get" | "list" | "watch");
    let is_aside = matches!(record.resource.as_str(), "" | "leases" | "events")
        || matches!(record.group.as_str(), "authentication.k8s.io" | "authorization.k8s.io")
        || record.subresource == "token"
        || (record.user == KUBELETS && record.resource == "nodes");
    is_write && !is_aside
}
