//! Our controller managers in this process: the same flags, controllers and identities as the programs', over the
//! embedded server and its clock.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use flyball_api::{ResourceType, ResourceVersion};
use flyball_cache::{InformerOptions, Informers};
use flyball_client::{Client, ClientOptions, Fence, FenceClock, Identities, user_agent_of};
use flyball_cloud::{CLOUD_CONTROLLER_MANAGER, Cloud};
use flyball_latest as latest;
use flyball_manager::engine::Engine;
use flyball_manager::flags::Invocation;
use flyball_manager::options::Options;
use flyball_manager::{Component, KUBE_CONTROLLER_MANAGER, LeaderContext, Prepared};
use flyball_runtime::config::Volumes;
use flyball_runtime::decisions::DecisionLog;
use flyball_runtime::gates::Gate;
use flyball_runtime::{
    DebugPages, Extensions, Health, Judge, Leadership, LeadershipSender, Metrics, Shared, Signal,
    SignalSender, Supervision, version,
};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Embedded;
use crate::cluster::Pki;
use crate::faults::Death;

/// Seed for watches and jitter, the same in every run.
const SEED: u64 = 1;
/// How often it is checked whether a new process has set up its controllers, which start its informers.
const SETUP: Duration = Duration::from_millis(100);
/// How long a controller manager may take to stop.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A controller manager that runs until it is stopped or dropped.
pub struct RunningManager {
    stop: SignalSender,
    task: JoinHandle<()>,
    life: Life,
}

/// The caches and metrics of the current process of a controller manager.
type Life = Arc<latest::Sender<Option<(Informers, Metrics)>>>;

impl RunningManager {
    /// Whether it has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// Completes when its cache of a resource has reached `version`; at once if it does not watch that resource. If it
    /// crashes meanwhile, that of the next process counts.
    pub async fn seen(&self, resource: &ResourceType, version: ResourceVersion) {
        let mut life = self.life.subscribe();
        loop {
            let Some(informers) = life.borrow_and_update().as_ref().map(|(informers, _)| informers.clone())
            else {
                return;
            };
            let reached = async {
                while informers.all().is_empty() {
                    tokio::time::sleep(SETUP).await;
                }
                if let Some(progress) = informers.progress(resource) {
                    progress.reached(version).await;
                }
            };
            tokio::select! {
                biased;
                () = reached => return,
                replaced = life.changed() => if replaced.is_err() { return },
            }
        }
    }

    /// Whether all its caches know whether the server was restored, and have been listed since.
    pub fn has_noticed_restores(&self) -> bool {
        let life = self.life.borrow();
        life.as_ref()
            .is_none_or(|(informers, _)| !informers.has_doubts() && informers.left_behind().is_empty())
    }

    /// The text of its `/metrics`.
    pub fn metrics(&self) -> String {
        self.life.borrow().as_ref().map_or_else(String::new, |(_, metrics)| metrics.text())
    }

    /// Stops it as a signal would, and aborts it after `patience`.
    pub async fn stop(mut self, patience: Duration) {
        self.stop.set();
        if tokio::time::timeout(patience, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

impl Drop for RunningManager {
    fn drop(&mut self) {
        self.stop.set();
        self.task.abort();
    }
}

/// Which manager, and its command line.
pub(super) struct Program {
    component: &'static Component,
    arguments: Vec<String>,
    /// The cloud that it works for, which outlives the manager.
    cloud: Option<Cloud>,
}

impl Program {
    /// A kube-controller-manager with the keys of the cluster.
    pub(super) fn kube(pki: &Pki, controllers: &[String], further: &[String]) -> Self {
        let mut arguments = vec![
            format!("--service-account-private-key-file={}", pki.path("sa.key")),
            format!("--root-ca-file={}", pki.path("ca.crt")),
            format!("--cluster-signing-cert-file={}", pki.path("ca.crt")),
            format!("--cluster-signing-key-file={}", pki.path("ca.key")),
        ];
        arguments.extend(general(controllers, further));
        Self { component: &KUBE_CONTROLLER_MANAGER, arguments, cloud: None }
    }

    pub(super) fn cloud(cloud: Cloud, controllers: &[String], further: &[String]) -> Self {
        let mut arguments = vec![format!("--cloud-provider={}", cloud.name())];
        arguments.extend(general(controllers, further));
        Self { component: &CLOUD_CONTROLLER_MANAGER, arguments, cloud: Some(cloud) }
    }
}

/// Flags of every manager here.
fn general(controllers: &[String], further: &[String]) -> impl Iterator<Item = String> {
    let own = [
        "--use-service-account-credentials=true".to_owned(),
        "--leader-elect=false".to_owned(),
        format!("--controllers={}", controllers.join(",")),
    ];
    own.into_iter().chain(further.to_vec())
}

/// Whether a new process has to wait until it leads.
enum Post {
    Leader,
    Standby(Leadership),
}

/// A process that stands by, and how it is made the leader.
struct Standby {
    process: RunningManager,
    leads: LeadershipSender,
}

impl Standby {
    fn begin(begin: &impl Fn(Post) -> RunningManager) -> Self {
        let (leads, leading) = Leadership::new();
        Self { process: begin(Post::Standby(leading)), leads }
    }

    /// The leader is dead. As with a real lease, workers start when the caches show everything that it wrote.
    fn take_over(self) -> RunningManager {
        self.leads.set(Instant::now());
        self.process
    }
}

/// Starts a controller manager behind the cluster's faults. After a crash fault another one is started; after a failover the
/// standby leads, and there is a new one.
pub(super) fn start(cluster: &Embedded, program: Program) -> anyhow::Result<RunningManager> {
    let begin = prepare(cluster, program)?;
    let Some(faults) = cluster.faults.clone() else { return Ok(begin(Post::Leader)) };
    let (stop, shutdown) = Signal::new();
    let life = Life::default();
    let shown = Arc::clone(&life);
    let task = tokio::spawn(async move {
        let mut leader = begin(Post::Leader);
        loop {
            shown.send_replace(leader.life.borrow().clone());
            let standby = faults.fail_over().then(|| Standby::begin(&begin));
            let death = tokio::select! {
                biased;
                death = faults.death() => death,
                () = shutdown.wait() => return leader.stop(LAST_WORDS).await,
            };
            drop(leader);
            leader = match standby {
                Some(standby) if death == Death::Failover => standby.take_over(),
                _ => begin(Post::Leader),
            };
        }
    });
    Ok(RunningManager { stop, task, life })
}

/// Everything that can fail, done once before the first start.
fn prepare(
    cluster: &Embedded,
    program: Program,
) -> anyhow::Result<impl Fn(Post) -> RunningManager + Send + 'static> {
    let Prepared { component, options, gates, controllers: chosen, .. } = plan(&program)?;
    let Program { cloud, .. } = program;
    let extensions = extensions(cluster, cloud.as_ref());
    let ways = (cluster.way_of_manager(Some("kcm-token")), cluster.way_of_manager(None));
    let ways_of_standby = (cluster.way_of_standby(Some("kcm-token")), cluster.way_of_standby(None));
    let time = cluster.clock_of_manager();
    let mut config = options.config.clone();
    let flex_folder =
        &mut config.persistent_volume_binder_controller.volume_configuration.flex_volume_plugin_dir;
    if *flex_folder == Volumes::default().flex_volume_plugin_dir {
        // Drivers that this machine happens to have must not run in a simulation.
        flex_folder.clear();
    }
    let resync = Some(options.config.generic.min_resync_period).filter(|period| !period.is_zero());
    let streams = gates.enabled(Gate::WatchListClient);
    Ok(move |post: Post| {
        let agent = agent(component);
        let (main, bearer) = match post {
            Post::Leader => &ways,
            Post::Standby(_) => &ways_of_standby,
        };
        let client = Client::new(Arc::clone(main), client_options(&options, agent.clone()));
        let identities = Identities::per_account(client, Arc::clone(bearer), agent.clone());
        let unlimited =
            ClientOptions { qps: 0.0, ..client_options(&options, format!("{agent}/shared-informers")) };
        let watches = Client::with_watches(Arc::clone(main), Arc::clone(main), unlimited);
        let informers = Informers::new(watches, InformerOptions { resync, streams, seed: SEED });
        let metrics = Metrics::default();
        metrics.watch_informers(component.name, &informers);
        let life = Life::default();
        life.send_replace(Some((informers.clone(), metrics.clone())));
        let shared = Shared {
            component: component.name,
            clock: time(),
            config: Arc::new(config.clone()),
            gates: gates.clone(),
            informers,
            decisions: DecisionLog::default(),
            debug: DebugPages::default(),
            metrics,
            server_ca: None,
            extensions: extensions.clone(),
        };
        let (stop, shutdown) = Signal::new();
        let grace = options.shutdown_timeout;
        let (leads, leading) = Leadership::new();
        let supervision = Supervision { leading, shutdown, grace, health: Health::default() };
        let context = LeaderContext {
            informers: shared.informers.clone(),
            identities: identities.clone(),
            fence: Fence::new(FenceClock::Boot),
            shutdown: supervision.shutdown.clone(),
        };
        let (engine, chosen) = (Engine::new(shared, identities), chosen.clone());
        let cloud = cloud.clone();
        let begins = async move {
            let since = match post {
                Post::Leader => None,
                Post::Standby(leading) => leading.wait().await,
            };
            if let Some(cloud) = cloud {
                cloud.begin(context).await;
            }
            leads.set(since);
        };
        let task = tokio::spawn(async move {
            tokio::join!(begins, engine.run(chosen, &supervision));
            // A manager without controllers still runs until it is stopped.
            supervision.shutdown.wait().await;
        });
        RunningManager { stop, task, life }
    })
}

/// Extensions of the context: the cloud, and the judge of invariants.
fn extensions(cluster: &Embedded, cloud: Option<&Cloud>) -> Extensions {
    let mut extensions = Extensions::default();
    if let Some(cloud) = cloud {
        extensions = extensions.with(cloud.clone());
    }
    if let Some(checker) = &cluster.checker {
        extensions = extensions.with(Judge::default());
        checker.add_judge(extensions.get::<Judge>());
    }
    extensions
}

/// Parses a command line as the program does.
fn plan(program: &Program) -> anyhow::Result<Prepared> {
    match program.component.parse(&program.arguments).context("read the controller manager's flags")? {
        Invocation::Run(parsed) => {
            flyball_manager::prepare(*parsed).map_err(|problems| anyhow::anyhow!(problems.join("; ")))
        }
        Invocation::Help | Invocation::Version(_) => bail!("the flags ask for help or the version"),
    }
}

fn client_options(options: &Options, user_agent: String) -> ClientOptions {
    let connection = &options.config.generic.client_connection;
    let burst = u32::try_from(connection.burst).unwrap_or(1);
    let (qps, protobuf) = (connection.qps.into(), connection.reads_protobuf());
    ClientOptions { user_agent, qps, burst, protobuf, ..ClientOptions::default() }
}

/// The server takes the field manager from it.
fn agent(component: &Component) -> String {
    user_agent_of(component.name, version::GIT_VERSION, version::FLYBALL, "")
}
