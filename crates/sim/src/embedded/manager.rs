//! Our controller managers in this process: the same flags, controllers and identities as the programs', over the
//! embedded server and its clock.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use flyball_api::{Key, ResourceType, ResourceVersion};
use flyball_cache::{InformerOptions, Informers};
use flyball_client::{Client, ClientOptions, Identities, user_agent_of};
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
    DebugPages, Extensions, Health, Insight, Judge, Leadership, Metrics, Shared, Signal, SignalSender,
    Supervision, version,
};
use tokio::task::JoinHandle;

use super::Embedded;
use crate::cluster::Pki;
use crate::faults::Link;

/// Seed for watches and jitter, the same in every run.
const SEED: u64 = 1;
/// How often it is checked whether a new process has set up its controllers, which start its informers.
const SETUP: Duration = Duration::from_millis(100);

/// A controller manager that runs until it is stopped or dropped.
pub struct RunningManager {
    pub(super) stop: SignalSender,
    pub(super) task: JoinHandle<()>,
    pub(super) life: Life,
}

/// What can be seen of the current process of a controller manager.
pub(super) type Life = Arc<latest::Sender<Option<Inside>>>;

#[derive(Clone)]
pub(super) struct Inside {
    informers: Informers,
    metrics: Metrics,
    insight: Insight,
}

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
            let Some(informers) = life.borrow_and_update().as_ref().map(|inside| inside.informers.clone())
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
        life.as_ref().is_none_or(|Inside { informers, .. }| {
            !informers.has_doubts() && informers.left_behind().is_empty()
        })
    }

    /// The version in which its cache holds an object, if it does.
    pub fn holds(&self, resource: &ResourceType, key: &Key) -> Option<ResourceVersion> {
        let informers = self.life.borrow().as_ref().map(|inside| inside.informers.clone())?;
        informers.progress(resource)?.holds(key).map(|(_, _, version)| version)
    }

    /// Whether no key is being synced, or waits for a worker, for a cache, or in quarantine. Retries that are due later do not count.
    pub fn is_idle(&self) -> bool {
        let insight = self.life.borrow().as_ref().map(|inside| inside.insight.clone());
        let controllers = insight.map(|insight| insight.controllers()).unwrap_or_default();
        let mut work = controllers.iter().filter_map(|controller| controller.work.as_ref());
        work.all(|work| work.ready + work.running + work.at_barrier + work.in_quarantine == 0)
    }

    /// The text of its `/metrics`.
    pub fn metrics(&self) -> String {
        self.life.borrow().as_ref().map_or_else(String::new, |inside| inside.metrics.text())
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
pub(super) enum Post {
    Leader,
    Standby(Leadership),
}

/// Everything that can fail, done once before the first start.
pub(super) fn prepare(
    cluster: &Embedded,
    program: Program,
) -> anyhow::Result<impl Fn(Post, &Arc<Link>) -> RunningManager + Send + 'static> {
    let Prepared { component, options, gates, controllers: chosen, .. } = plan(&program)?;
    let Program { cloud, .. } = program;
    let extensions = extensions(cluster, cloud.as_ref());
    let ways = cluster.ways();
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
    Ok(move |post: Post, link: &Arc<Link>| {
        let agent = agent(component);
        let is_standby = matches!(post, Post::Standby(_));
        let main = ways.of(link, is_standby, Some("kcm-token"));
        let fenced =
            ClientOptions { fence: Some(link.fence().clone()), ..client_options(&options, agent.clone()) };
        let client = Client::new(Arc::clone(&main), fenced);
        let identities = Identities::per_account(client, ways.of(link, is_standby, None), agent.clone());
        let unlimited =
            ClientOptions { qps: 0.0, ..client_options(&options, format!("{agent}/shared-informers")) };
        let watches = Client::new(main, unlimited);
        let informers = Informers::new(watches, InformerOptions { resync, streams, seed: SEED });
        let metrics = Metrics::default();
        metrics.watch_informers(component.name, &informers);
        let life = Life::default();
        let insight = Insight::default();
        life.send_replace(Some(Inside {
            informers: informers.clone(),
            metrics: metrics.clone(),
            insight: insight.clone(),
        }));
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
            extensions: extensions.clone().with(insight),
        };
        let (stop, shutdown) = Signal::new();
        let grace = options.shutdown_timeout;
        let (leads, leading) = Leadership::new();
        let supervision = Supervision { leading, shutdown, grace, health: Health::default() };
        let context = LeaderContext {
            informers: shared.informers.clone(),
            identities: identities.clone(),
            fence: link.fence().clone(),
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
