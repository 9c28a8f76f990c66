//! The shell: find the version that is served and start its informer; then look up, plan, execute.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use flyball_api::{ClusterTrustBundle, Key, Object, Resource, ResourceType};
use flyball_cache::{AnyInformer, Filter, Informer, Subscription};
use flyball_queue::{Priority, Queue};
use flyball_runtime::metrics::{DOUBLING_SECONDS as SECONDS, Family, Stability};
use flyball_runtime::{Chain, Context, Next, Reconcile, SyncError, priority};
use tokio::time::Instant;

use super::plan::{SIGNER, View, name, plan};

static SYNCS: Family = Family::counter(
    "clustertrustbundle_publisher_sync_total",
    Stability::Alpha,
    &["code"],
    "Number of syncs that occurred in cluster trust bundle publisher.",
);
static DURATION: Family = Family::histogram(
    "clustertrustbundle_publisher_sync_duration_seconds",
    Stability::Alpha,
    &["code"],
    SECONDS,
    "The time it took to sync a cluster trust bundle.",
);

const ALPHA: ResourceType =
    ResourceType::new("certificates.k8s.io", "v1alpha1", "clustertrustbundles", "ClusterTrustBundle", false);
/// The pause after a failed discovery.
const DISCOVERY_RETRY: Duration = Duration::from_secs(5);

pub(super) struct Controller {
    cx: Arc<Context>,
    bundle: Arc<str>,
    published: OnceLock<Published>,
}

/// The informer for the bundles of the signer, in the version that is served.
struct Published {
    informer: Arc<Informer<ClusterTrustBundle>>,
    _changes: Subscription,
}

impl Controller {
    pub(super) fn new(cx: Arc<Context>, bundle: Arc<str>) -> Self {
        Self { cx, bundle, published: OnceLock::new() }
    }

    /// Waits for the informer of the version that is served.
    pub(super) async fn follow(&self, queue: Queue<Key>) {
        let Some(resource) = self.served().await else {
            tracing::info!(
                "ClusterTrustBundles are served neither as v1beta1 nor as v1alpha1; nothing is published"
            );
            return;
        };
        let only = Filter { fields: Some(format!("spec.signerName={SIGNER}")), ..Filter::default() };
        let informer = self.cx.informers.filtered_as::<ClusterTrustBundle>(&resource, only);
        let cache: Arc<dyn AnyInformer> = informer.clone();
        self.cx.needs(&cache);
        let ours = Key::cluster(name(&self.bundle).as_str());
        let changes = self.cx.subscribe(&informer, {
            let (queue, ours) = (queue.clone(), ours.clone());
            move |change| queue.add(ours.clone(), priority(change.origin))
        });
        informer.synced().await;
        if self.published.set(Published { informer, _changes: changes }).is_ok() {
            queue.add(ours, Priority::Change);
        }
    }

    async fn served(&self) -> Option<ResourceType> {
        loop {
            match self.cx.client.discover().await {
                Ok(found) => {
                    let versions = [ClusterTrustBundle::TYPE, ALPHA];
                    let is_served = |wanted: &ResourceType| {
                        found.resources.iter().any(|served| served.resource == *wanted)
                    };
                    return versions.into_iter().find(is_served);
                }
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "discovery failed; trying again");
                    tokio::time::sleep(DISCOVERY_RETRY).await;
                }
            }
        }
    }
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(Published { informer, .. }) = self.published.get() else { return Ok(Next::Settled) };
        let started = Instant::now();
        let mut published = informer.store().list();
        published.sort_unstable_by_key(|bundle| bundle.key());
        let view = View { resource: informer.resource(), bundle: &self.bundle, published: &published };
        let done = self.cx.executor(key).run(plan(&view)).await;
        let code = done.outcome.failure().map_or(200, |failure| failure.code().unwrap_or(500)).to_string();
        self.cx.metrics.counter(&SYNCS, &[&code]).inc();
        self.cx.metrics.histogram(&DURATION, &[&code]).observe(started.elapsed().as_secs_f64());
        done.result()
    }
}
