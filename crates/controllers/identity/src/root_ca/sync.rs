//! The shell: look up, plan, execute, count.

use std::sync::Arc;

use flyball_api::{ConfigMap, Key};
use flyball_cache::Informer;
use flyball_runtime::metrics::{DOUBLING_SECONDS as SECONDS, Family, Stability};
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use tokio::time::Instant;

use super::plan::{CONFIG_MAP, View, plan};

static SYNCS: Family = Family::counter(
    "root_ca_cert_publisher_sync_total",
    Stability::Alpha,
    &["code"],
    "Number of namespace syncs happened in root ca cert publisher.",
);
static DURATION: Family = Family::histogram(
    "root_ca_cert_publisher_sync_duration_seconds",
    Stability::Alpha,
    &["code"],
    SECONDS,
    "Number of namespace syncs happened in root ca cert publisher.",
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
        let done = self.cx.executor(key).run(plan(&view)).await;
        let code = done.outcome.failure().map_or(200, |failure| failure.code().unwrap_or(500)).to_string();
        self.cx.metrics.counter(&SYNCS, &[&code]).inc();
        self.cx.metrics.histogram(&DURATION, &[&code]).observe(started.elapsed().as_secs_f64());
        done.result()
    }
}
