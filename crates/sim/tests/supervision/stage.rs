//! Controllers over an embedded cluster, in virtual time, and a diary of what they do, through which they can be made to panic
//! at any place.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{ConfigMap, Key};
use flyball_cache::{InformerOptions, Informers};
use flyball_client::{Client, ClientOptions, Identities, Transport};
use flyball_manager::engine::Engine;
use flyball_manager::table::Controller;
use flyball_runtime::decisions::DecisionLog;
use flyball_runtime::gates::Gates;
use flyball_runtime::{
    Clock, DebugPages, Ended, Extensions, Health, Leadership, Metrics, PanicInjector, Place, Shared, Signal,
    SignalSender, Supervision,
};
use flyball_sim::embedded::Embedded;
use flyball_sim::features::Features;
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Grace period for syncs in flight at the end.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// One entry: time, controller, place, object.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) when: Instant,
    pub(crate) controller: &'static str,
    pub(crate) place: Place,
    pub(crate) what: String,
}

/// A panic to be caused, this many times.
struct Poison {
    controller: &'static str,
    place: Place,
    what: String,
    times: usize,
}

/// Records what controllers do, and makes them panic.
#[derive(Default)]
pub(crate) struct Diary {
    lines: Mutex<Vec<Line>>,
    poisons: Mutex<Vec<Poison>>,
}

impl Diary {
    /// Makes a controller panic at `what`, `times` times.
    pub(crate) fn poison(&self, controller: &'static str, place: Place, what: &str, times: usize) {
        self.poisons.lock().push(Poison { controller, place, what: what.to_owned(), times });
    }

    /// The times at which a controller was at `place` with `what`.
    pub(crate) fn times(&self, controller: &str, place: Place, what: &str) -> Vec<Instant> {
        let lines = self.lines.lock();
        let about = lines.iter().filter(|line| line.controller == controller && line.place == place);
        about.filter(|line| line.what == what).map(|line| line.when).collect()
    }

    /// The times at which a controller was set up.
    pub(crate) fn set_ups(&self, controller: &str) -> Vec<Instant> {
        self.times(controller, Place::Start, controller)
    }

    /// The times at which a controller synced an object of the namespace `default`.
    pub(crate) fn syncs(&self, controller: &str, name: &str) -> Vec<Instant> {
        self.times(controller, Place::Sync, &format!("default/{name}"))
    }

    /// Waits until a controller has synced an object this many times.
    pub(crate) async fn has_synced(&self, controller: &str, name: &str, times: usize) {
        let what = format!("{controller} and {name}");
        until(&what, || self.syncs(controller, name).len() >= times).await;
    }

    fn tempt(&self, controller: &'static str, place: Place, what: &str) {
        self.lines.lock().push(Line { when: Instant::now(), controller, place, what: what.to_owned() });
        let strikes = |poison: &&mut Poison| {
            poison.controller == controller
                && poison.place == place
                && poison.what == what
                && poison.times > 0
        };
        let mut poisons = self.poisons.lock();
        if let Some(poison) = poisons.iter_mut().find(strikes) {
            poison.times -= 1;
            drop(poisons);
            panic!("made to panic");
        }
    }
}

pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(3600), wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

pub(crate) struct Stage {
    pub(crate) diary: Arc<Diary>,
    pub(crate) identities: Identities,
    pub(crate) health: Health,
    pub(crate) metrics: Metrics,
    stop: SignalSender,
    running: JoinHandle<Ended>,
}

impl Stage {
    /// Starts the controllers, with `watches` wrapped around the transport of the informers.
    pub(crate) fn start(
        diary: Arc<Diary>,
        controllers: Vec<&'static Controller>,
        watches: impl FnOnce(Arc<dyn Transport>) -> Arc<dyn Transport>,
    ) -> anyhow::Result<Self> {
        Self::start_with(diary, controllers, watches, |way| way)
    }

    /// The same, with `writes` wrapped around the transport of the writes.
    pub(crate) fn start_with(
        diary: Arc<Diary>,
        controllers: Vec<&'static Controller>,
        watches: impl FnOnce(Arc<dyn Transport>) -> Arc<dyn Transport>,
        writes: impl FnOnce(Arc<dyn Transport>) -> Arc<dyn Transport>,
    ) -> anyhow::Result<Self> {
        let cluster = Embedded::start("2026-06-01T12:00:00Z".parse()?, 1, &Features::default())?;
        let transport = cluster.transport(Some("admin-token"));
        let options = || ClientOptions { qps: 0.0, ..ClientOptions::default() };
        let watching = Client::with_watches(transport.clone(), watches(transport.clone()), options());
        let panic_injector = PanicInjector::new({
            let diary = diary.clone();
            move |controller, place, what| diary.tempt(controller, place, what)
        });
        let shared = Shared {
            component: "kube-controller-manager",
            extensions: Extensions::default().with(panic_injector),
            clock: Clock::virtual_from(cluster.clock().now()),
            config: Arc::default(),
            gates: Gates::default(),
            informers: Informers::new(watching, InformerOptions { seed: 1, ..InformerOptions::default() }),
            decisions: DecisionLog::default(),
            debug: DebugPages::default(),
            metrics: Metrics::default(),
            server_ca: None,
        };
        let identities = Identities::shared(Client::new(transport.clone(), options()), "test");
        let (metrics, health) = (shared.metrics.clone(), Health::default());
        let (stop, shutdown) = Signal::new();
        let supervision =
            Supervision { leading: Leadership::always(), shutdown, grace: GRACE, health: health.clone() };
        let theirs = Identities::shared(Client::new(writes(transport.clone()), options()), "test");
        let engine = Engine::new(shared, theirs);
        let running = tokio::spawn(async move { engine.run(controllers, &supervision).await });
        Ok(Self { diary, identities, health, metrics, stop, running })
    }

    pub(crate) async fn create(&self, name: &str) -> anyhow::Result<()> {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        self.identities.main().create::<ConfigMap>("default", &body).await?;
        Ok(())
    }

    pub(crate) async fn touch(&self, name: &str, value: usize) -> anyhow::Result<()> {
        let patch = flyball_client::Patch::Merge(json!({"data": {"value": value.to_string()}}));
        self.identities.main().patch::<ConfigMap>(&Key::new("default", name), None, &patch).await?;
        Ok(())
    }

    /// Whether the health check of a controller passes.
    pub(crate) fn is_well(&self, name: &str) -> Option<bool> {
        self.health.checks().into_iter().find(|(check, _)| *check == name).map(|(_, state)| state.is_ok())
    }

    /// The remark of a controller's health check.
    pub(crate) fn remark(&self, name: &str) -> String {
        let found = self.health.remarks().into_iter().find(|(check, _)| *check == name);
        found.map(|(_, remark)| remark).unwrap_or_default()
    }

    /// The value of a metric, 0 if there is none.
    pub(crate) fn metric(&self, series: &str) -> u64 {
        let text = self.metrics.text();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().unwrap_or(u64::MAX))
    }

    /// The number of a controller's panics at a place.
    pub(crate) fn panics(&self, controller: &str, place: Place) -> u64 {
        self.metric(&format!("flyball_controller_panics_total{{name=\"{controller}\",place=\"{place}\"}}"))
    }

    /// Stops everything, and returns how long that took.
    pub(crate) async fn stop(self) -> anyhow::Result<Duration> {
        let asked = Instant::now();
        self.stop.set();
        self.running.await?;
        Ok(asked.elapsed())
    }
}
