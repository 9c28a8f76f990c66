//! The shell: look up, plan, execute, count.

use std::sync::Arc;

use flyball_api::{ConfigMap, Key};
use flyball_cache::Informer;
use flyball_runtime::metrics::{Family, Stability};
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use tokio::time::Instant;

use super::plan::{CONFIG_MAP, View, plan};

const SECONDS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];
static SYNCS: Family = Family::counter(
    "root_ca_cert_publisher_sync_total",
    Stability::Alpha,
    &["code"],
    "Number of namespace syncs, by outcome.",
);
static DURATION: Family = Family::histogram(
    "root_ca_cert_publisher_sync_duration_seconds",
    Stability::Alpha,
    &["code"],
    SECONDS,
    "How long it took to look at a namespace, by outcome.",
);

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) published: Arc<Informer<ConfigMap>>,
    pub(super) bundle: Arc<str>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let started = Instant::now();
        let published = self.published.store().get(&Key::new(key.name.as_str(), CONFIG_MAP));
        let view = View { namespace: &key.name, bundle: &self.bundle, published: published.as_deref() };
        let outcome = self.cx.executor(key).perform(plan(&view).effects).await;
        let code = outcome.failure().map_or(200, |failure| failure.code().unwrap_or(500)).to_string();
        self.cx.metrics.counter(&SYNCS, &[&code]).inc();
        self.cx.metrics.histogram(&DURATION, &[&code]).observe(started.elapsed().as_secs_f64());
        outcome.result().map(|()| Next::Settled)
    }
}
