//! The shell: look up, plan, write, count.

use std::sync::Arc;

use flyball_api::{ConfigMap, Key};
use flyball_cache::Informer;
use flyball_client::Error;
use flyball_runtime::metrics::{Family, Stability};
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use tokio::time::Instant;

use super::plan::{Action, CONFIG_MAP, is_needless, plan};

const SECONDS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];
static SYNCS: Family = Family::counter(
    "root_ca_cert_publisher_sync_total",
    Stability::Alpha,
    &["code"],
    "Namespaces looked at, by outcome.",
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
        let outcome = self.publish(key).await;
        let code = outcome.as_ref().err().map_or(200, |error| error.code().unwrap_or(500)).to_string();
        self.cx.metrics.counter(&SYNCS, &[&code]).inc();
        self.cx.metrics.histogram(&DURATION, &[&code]).observe(started.elapsed().as_secs_f64());
        let doing = || format!("publishing the root CA to namespace {}", key.name);
        outcome.map(|()| Next::Settled).map_err(|error| SyncError::api(doing())(error))
    }
}

impl Controller {
    async fn publish(&self, key: &Key) -> Result<(), Error> {
        let name = Key::new(key.name.as_str(), CONFIG_MAP);
        let published = self.published.store().get(&name);
        let writer = self.cx.writer(key);
        match plan(&self.bundle, published.as_deref()) {
            None => Ok(()),
            Some(Action::Create(body)) => {
                let made =
                    writer.create::<ConfigMap>(&key.name, &body, "every namespace has the root CA").await;
                made.map(drop).or_else(|error| if is_needless(&error) { Ok(()) } else { Err(error) })
            }
            Some(Action::Update(map)) => {
                writer.update_whole(&*map, "it must hold exactly the root CA").await.map(drop)
            }
        }
    }
}
