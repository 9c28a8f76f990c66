//! A standby whose watches lag wins the lease. It must not create the pods of the former leader a second time, or count the
//! objects of a quota too low: its controllers start only when their caches show everything that was there when it won. For
//! comparison a manager that starts at once makes these mistakes.

#[path = "../supervision/lag.rs"]
mod lag;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_api::{ConfigMap, Key, Pod, ReplicaSet, Resource, ResourceQuota};
use flyball_cache::{InformerOptions, Informers};
use flyball_client::{
    Body, Client, ClientOptions, DeleteOptions, Identities, ListParams, Transport, TransportError,
};
use flyball_election::{Elector, Settings};
use flyball_manager::engine::Engine;
use flyball_manager::table::CONTROLLERS;
use flyball_runtime::config::LeaderElection;
use flyball_runtime::decisions::DecisionLog;
use flyball_runtime::gates::Gates;
use flyball_runtime::{
    Clock, DebugPages, Extensions, Health, Leadership, Metrics, Shared, Signal, Supervision,
};
use flyball_sim::api::Api;
use flyball_sim::embedded::Embedded;
use flyball_sim::features::Features;
use futures::future::BoxFuture;
use lag::Lagging;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Longer than a lease and the time that a cache is given to catch up.
const LAG: Duration = Duration::from_secs(60);
const REPLICAS: usize = 10;

/// Delays the watches of one resource only: the standby sees the ReplicaSet in time, and not its pods.
struct OneLags {
    plural: &'static str,
    prompt: Arc<dyn Transport>,
    late: Lagging,
}

impl Transport for OneLags {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        if request.uri().path().rsplit('/').next() == Some(self.plural) {
            self.late.send(request)
        } else {
            self.prompt.send(request)
        }
    }
}

/// When a manager that has won the lease starts its controllers.
#[derive(Clone, Copy, PartialEq)]
enum TakesOver {
    /// When its caches show what the former leader wrote, as our program does.
    WithFreshCaches,
    AtOnce,
}

/// One manager with one controller, in election.
struct Manager {
    task: JoinHandle<()>,
    leads: Signal,
}

impl Manager {
    fn start(
        cluster: &Embedded,
        controller: &'static str,
        identity: &str,
        watches: Arc<dyn Transport>,
        takes_over: TakesOver,
    ) -> Self {
        let transport = cluster.transport(Some("admin-token"));
        let options = || ClientOptions { qps: 0.0, ..ClientOptions::default() };
        let client = Client::new(transport.clone(), options());
        let watching = Client::with_watches(transport, watches, options());
        let clock = Clock::virtual_from(cluster.clock().now());
        let shared = Shared {
            component: "kube-controller-manager",
            extensions: Extensions::default(),
            clock,
            config: Arc::default(),
            gates: Gates::default(),
            informers: Informers::new(watching, InformerOptions { seed: 1, ..InformerOptions::default() }),
            decisions: DecisionLog::default(),
            debug: DebugPages::default(),
            metrics: Metrics::default(),
            server_ca: None,
        };
        let settings = Settings::new(&LeaderElection::default(), identity.to_owned());
        let mut elector = Elector::new(settings, client.clone(), shared.metrics.clone(), move || clock.now())
            .with_random(|| 0.5);
        // Caches are warm, also if the controllers are set up later.
        let informers = shared.informers.clone();
        let _caches =
            (informers.get::<Pod>(), informers.get::<ReplicaSet>(), informers.dynamic(&ConfigMap::TYPE));
        let engine = Engine::new(shared, Identities::shared(client, "test"));
        let (won, leads) = Signal::new();
        let leads_now = leads.clone();
        let (sender, leading) = Leadership::new();
        let task = tokio::spawn(async move {
            let (_never, shutdown) = Signal::new();
            let leading = if takes_over == TakesOver::AtOnce { Leadership::always() } else { leading };
            let supervision =
                Supervision { leading, shutdown, grace: Duration::ZERO, health: Health::default() };
            let controllers = CONTROLLERS.iter().filter(|row| row.name == controller);
            let work = async {
                if takes_over == TakesOver::AtOnce {
                    leads_now.wait().await;
                }
                engine.run(controllers, &supervision).await;
            };
            let election = async {
                sender.set(elector.acquire().await);
                won.set();
                elector.renew().await
            };
            tokio::select! {
                () = work => {}
                _lost = election => {}
            }
        });
        Self { task, leads }
    }

    /// Like `kill -9`: nothing is finished, and the lease is not released.
    fn kill(&self) {
        self.task.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lagging_standby_does_not_create_the_former_leaders_pods_again() -> anyhow::Result<()> {
    let play = Play::start(TakesOver::WithFreshCaches).await?;
    assert_eq!(play.pods().await?, REPLICAS, "the standby did not wait for its cache");
    sleep(LAG * 10).await;
    assert_eq!(play.pods().await?, REPLICAS);

    // It works once its cache is current: a deleted pod is replaced.
    let gone = play.client.list::<Pod>(Some("default"), &ListParams::default()).await?.items.remove(0);
    play.client.delete::<Pod>(&gone.metadata.key(), &DeleteOptions::default()).await?;
    assert_eq!(play.pods().await?, REPLICAS - 1);
    sleep(LAG * 10).await;
    assert_eq!(play.pods().await?, REPLICAS, "the standby does not work");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lagging_standby_that_starts_at_once_would_create_them_again() -> anyhow::Result<()> {
    let play = Play::start(TakesOver::AtOnce).await?;
    assert_eq!(play.pods().await?, 2 * REPLICAS);
    Ok(())
}

/// The quota of ConfigMaps, whose caches are found by a preparation of the controller.
#[tokio::test(start_paused = true)]
async fn a_lagging_standby_counts_no_quota_too_low() -> anyhow::Result<()> {
    let play = Play::start_quota(TakesOver::WithFreshCaches).await?;
    assert_eq!(play.used().await?, "10", "the standby did not wait for its cache");
    sleep(LAG * 10).await;
    assert_eq!(play.used().await?, "10");

    // It works once its cache is current: a deleted object is no longer counted.
    play.client.delete::<ConfigMap>(&Key::new("default", "c-0"), &DeleteOptions::default()).await?;
    sleep(LAG * 10).await;
    assert_eq!(play.used().await?, "9", "the standby does not work");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lagging_standby_that_starts_at_once_would_count_a_quota_too_low() -> anyhow::Result<()> {
    let play = Play::start_quota(TakesOver::AtOnce).await?;
    assert_eq!(play.used().await?, "0");
    Ok(())
}

/// A takeover, some time after it, and well before the standby's watch shows the first object.
struct Play {
    cluster: Embedded,
    client: Client,
    leader: Manager,
    standby: Manager,
}

impl Play {
    async fn start(takes_over: TakesOver) -> anyhow::Result<Self> {
        let play = Self::two_managers("replicaset-controller", "pods", takes_over).await?;
        let labels = json!({"app": "web"});
        let set = json!({"metadata": {"name": "web"}, "spec": {"replicas": REPLICAS,
            "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        play.client.create::<ReplicaSet>("default", &set).await?;
        sleep(Duration::from_secs(2)).await;
        assert_eq!(play.pods().await?, REPLICAS, "the leader has created them");
        play.take_over().await
    }

    async fn start_quota(takes_over: TakesOver) -> anyhow::Result<Self> {
        let play = Self::two_managers("resourcequota-controller", "configmaps", takes_over).await?;
        for n in 0..10 {
            let object = json!({"metadata": {"name": format!("c-{n}")}});
            play.client.create::<ConfigMap>("default", &object).await?;
        }
        let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "20"}}});
        play.client.create::<ResourceQuota>("default", &quota).await?;
        sleep(Duration::from_secs(10)).await;
        assert_eq!(play.used().await?, "10", "the leader has counted them");
        play.take_over().await
    }

    /// A leader, and a warm standby whose watch of `plural` lags.
    async fn two_managers(
        controller: &'static str,
        plural: &'static str,
        takes_over: TakesOver,
    ) -> anyhow::Result<Self> {
        let cluster = Embedded::start("2026-06-01T12:00:00Z".parse()?, 1, &Features::default())?;
        let transport = cluster.transport(Some("admin-token"));
        let client = Client::new(transport.clone(), ClientOptions { qps: 0.0, ..ClientOptions::default() });
        let leader =
            Manager::start(&cluster, controller, "leader", transport.clone(), TakesOver::WithFreshCaches);
        timeout(Duration::from_secs(60), leader.leads.wait()).await?;
        let late = Lagging { inner: transport.clone(), lag: LAG };
        let watches = Arc::new(OneLags { plural, prompt: transport, late });
        let standby = Manager::start(&cluster, controller, "standby", watches, takes_over);
        // Its first list lags, too; from then on the standby is warm.
        sleep(LAG * 2).await;
        assert!(!standby.leads.is_set());
        Ok(Self { cluster, client, leader, standby })
    }

    async fn take_over(self) -> anyhow::Result<Self> {
        self.leader.kill();
        timeout(Duration::from_secs(20), self.standby.leads.wait()).await?;
        sleep(LAG / 3).await;
        Ok(self)
    }

    /// How many ConfigMaps the quota says there are.
    async fn used(&self) -> anyhow::Result<String> {
        let api = Api::discover(self.cluster.client()).await?;
        let quota = api.get("/api/v1/namespaces/default/resourcequotas/q").await?;
        Ok(quota["status"]["used"]["count/configmaps"].as_str().unwrap_or_default().to_owned())
    }

    async fn pods(&self) -> anyhow::Result<usize> {
        Ok(self.client.list::<Pod>(Some("default"), &ListParams::default()).await?.items.len())
    }
}

impl Drop for Play {
    fn drop(&mut self) {
        self.leader.kill();
        self.standby.kill();
    }
}
