//! A controller that panics: it alone is restarted, the poisoned object waits, and `/healthz` tells of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flyball_api::{ConfigMap, Key, Timestamp};
use flyball_cache::{InformerOptions, Informers};
use flyball_client::{Client, ClientOptions, Identities};
use flyball_manager::engine::Engine;
use flyball_manager::table::{Controller, Pace, State};
use flyball_runtime::decisions::DecisionLog;
use flyball_runtime::gates::Gates;
use flyball_runtime::{
    Clock, Context, Health, Metrics, Next, Orders, Reconcile, Shared, Signal, Start, StartError, SyncError,
    Tasks,
};
use flyball_sim::embedded::Embedded;
use flyball_sim::features::Features;
use parking_lot::Mutex;
use serde_json::json;

/// How long keys in hand may take at the end.
const GRACE: Duration = Duration::from_secs(10);

/// What a controller of this test has been through.
struct Diary {
    starts: AtomicUsize,
    seen: Mutex<Vec<String>>,
    poison: &'static str,
}

static FRAGILE: Diary = Diary { starts: AtomicUsize::new(0), seen: Mutex::new(vec![]), poison: "poison" };
static BYSTANDER: Diary = Diary { starts: AtomicUsize::new(0), seen: Mutex::new(vec![]), poison: "" };

impl Reconcile for &'static Diary {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        assert_ne!(key.name, self.poison, "cannot stomach this");
        self.seen.lock().push(key.name.to_string());
        Ok(Next::Settled)
    }
}

impl Diary {
    fn start(&'static self, cx: &Context, tasks: &mut Tasks) {
        self.starts.fetch_add(1, Ordering::Relaxed);
        let (queue, maps) = (tasks.queue("test"), cx.informer::<ConfigMap>());
        tasks.feed(&maps, &queue, |change| [change.key()]);
        tasks.spawn("endless loop", std::future::pending());
        tasks.workers(&queue, 2, Arc::new(self));
    }

    /// Waits until an object has been looked at.
    async fn has_seen(&self, name: &str) {
        let seen = async {
            while !self.seen.lock().iter().any(|seen| seen == name) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(3600), seen)
            .await
            .unwrap_or_else(|_| panic!("{name} was never seen"));
    }
}

fn start_fragile(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    FRAGILE.start(&cx, tasks);
    Ok(())
}

fn start_bystander(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    BYSTANDER.start(&cx, tasks);
    Ok(())
}

const fn controller(name: &'static str, start: Start) -> Controller {
    Controller {
        name,
        aliases: &[],
        identity: None,
        gates: &[],
        on_by_default: true,
        watches: "configmaps",
        writes: "",
        pace: Pace { qps: 1.0, burst: 1 },
        state: State::Done,
        start: Some(start),
    }
}

static CONTROLLERS: [Controller; 2] =
    [controller("fragile", start_fragile), controller("bystander", start_bystander)];

fn shared(cluster: &Embedded) -> (Shared, Identities) {
    let transport = cluster.transport(Some("admin-token"));
    let options = || ClientOptions { qps: 0.0, ..ClientOptions::default() };
    let watches = Client::with_watches(transport.clone(), transport.clone(), options());
    let shared = Shared {
        component: "kube-controller-manager",
        extensions: flyball_runtime::Extensions::default(),
        clock: Clock::virtual_from(cluster.clock().now()),
        config: Arc::default(),
        gates: Gates::default(),
        informers: Informers::new(watches, InformerOptions { seed: 1, ..InformerOptions::default() }),
        decisions: DecisionLog::default(),
        debug: flyball_runtime::DebugPages::default(),
        metrics: Metrics::default(),
        server_ca: None,
    };
    (shared, Identities::shared(Client::new(transport, options()), "test"))
}

fn check(health: &Health, name: &str) -> Option<bool> {
    health.checks().into_iter().find(|(check, _)| *check == name).map(|(_, state)| state.is_ok())
}

#[tokio::test(start_paused = true)]
async fn a_panic_restarts_one_controller_and_one_object_waits() -> anyhow::Result<()> {
    let cluster = Embedded::start("2026-06-01T12:00:00Z".parse::<Timestamp>()?, 1, &Features::default())?;
    let (shared, identities) = shared(&cluster);
    let (metrics, health) = (shared.metrics.clone(), Health::default());
    let (stop, shutdown) = Signal::new();
    let orders = Orders { leading: Signal::already(), shutdown, grace: GRACE, health: health.clone() };
    let engine = Engine::new(shared, identities.clone());
    let running = tokio::spawn(async move { engine.run(&CONTROLLERS, &orders).await });

    let create = async |name: &str| {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        identities.main().create::<ConfigMap>("default", &body).await
    };
    create("before").await?;
    FRAGILE.has_seen("before").await;
    assert_eq!(check(&health, "fragile"), Some(true));

    create("poison").await?;
    BYSTANDER.has_seen("poison").await;
    while check(&health, "fragile") != Some(false) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(check(&health, "bystander"), Some(true));

    // The poisoned object keeps nobody else waiting, not even in its own controller.
    create("after").await?;
    FRAGILE.has_seen("after").await;
    assert!(FRAGILE.starts.load(Ordering::Relaxed) >= 2);
    assert_eq!(BYSTANDER.starts.load(Ordering::Relaxed), 1);
    assert!(metrics.text().contains("flyball_controller_panics_total{name=\"fragile\"}"));

    // Tried again, but ever less often.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let starts = FRAGILE.starts.load(Ordering::Relaxed);
    assert!((5..40).contains(&starts), "{starts} starts in an hour");

    // Workers are done with their keys and loops only wait: nobody needs the grace.
    let asked = tokio::time::Instant::now();
    stop.give();
    running.await?;
    assert!(asked.elapsed() < GRACE, "it took {:?} to stop", asked.elapsed());
    Ok(())
}
