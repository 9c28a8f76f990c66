//! Follows what the server serves: an informer for each resource that can be collected, from which the graph is
//! fed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flyball_api::ResourceType;
use flyball_cache::{AnyInformer, Subscription};
use flyball_client::{Client, Discovery};
use flyball_queue::Priority;
use flyball_runtime::metrics::{Counter, Family, Passage, Stability};
use flyball_runtime::{Chain, Context, priority};
use futures::future::join_all;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use super::catalog::{Catalog, deletable};
use super::identity::Kind;
use super::live::Live;
use super::sync::Collector;

/// How often discovery is asked.
const PERIOD: Duration = Duration::from_secs(30);
/// How long the first lists may take before the collector works with what it has.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long after a new definition its resource is looked for: the server needs a moment to serve it.
const SOON: Duration = Duration::from_secs(1);
/// How long after a round that failed the next one comes.
const AGAIN: Duration = Duration::from_secs(5);

static SYNC_ERRORS: Family = Family::counter(
    "garbagecollector_controller_resources_sync_error_total",
    Stability::Alpha,
    &[],
    "Rounds of discovery that failed, or whose informers did not fill in time.",
);

/// The informers that feed the graph.
pub(super) struct Monitors {
    cx: Arc<Context>,
    discovery: Client,
    collector: Arc<Collector<Live>>,
    catalog: Arc<RwLock<Catalog>>,
    followed: Arc<AtomicBool>,
    running: Mutex<BTreeMap<ResourceType, Monitor>>,
    news: Arc<Notify>,
    errors: Counter,
    changes: Arc<Passage>,
}

struct Monitor {
    informer: Arc<dyn AnyInformer>,
    _subscription: Subscription,
}

impl Monitors {
    pub(super) fn new(
        cx: Arc<Context>,
        collector: Arc<Collector<Live>>,
        catalog: Arc<RwLock<Catalog>>,
        followed: Arc<AtomicBool>,
    ) -> Self {
        Self {
            // Looking at discovery does not have to wait behind deletions.
            discovery: cx.client.with_options(cx.client.options().clone()),
            errors: cx.metrics.counter(&SYNC_ERRORS, &[]),
            changes: Arc::new(cx.metrics.passage("garbage_collector_graph_changes")),
            running: Mutex::default(),
            news: Arc::default(),
            cx,
            collector,
            catalog,
            followed,
        }
    }

    /// The first round: finds the resources and waits for their lists, but not for ever.
    pub(super) async fn first(&self) {
        self.round().await;
    }

    /// Repeats that, for as long as the controller runs.
    pub(super) async fn follow(&self) {
        let mut pause = if self.followed.load(Ordering::Acquire) { PERIOD } else { AGAIN };
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.news.notified() => tokio::time::sleep(SOON).await,
            }
            // After a failure the next look is sooner.
            pause = if self.round().await { PERIOD } else { AGAIN };
        }
    }

    /// One look at what is served; says whether discovery answered.
    async fn round(&self) -> bool {
        let answered = self.compare().await;
        self.followed.store(answered, Ordering::Release);
        answered
    }

    /// Asks discovery, starts what is new and stops what is no longer there.
    async fn compare(&self) -> bool {
        let discovery = match self.discovery.discover().await {
            Ok(discovery) if !discovery.resources.is_empty() => discovery,
            Ok(_) => {
                tracing::warn!("discovery names no resources; nothing is changed");
                self.errors.inc();
                return false;
            }
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "discovery failed; nothing is changed");
                self.errors.inc();
                return false;
            }
        };
        for failure in &discovery.failures {
            let (group_version, problem) = (&failure.group_version, &failure.problem);
            tracing::warn!(group_version, problem, "a group version cannot be discovered");
        }
        self.learn(&discovery);
        let wanted = deletable(&discovery, |resource| self.is_ignored(resource), self.working());
        let stopped: Vec<ResourceType> = {
            let running = self.running.lock();
            running.keys().filter(|resource| !wanted.contains(resource)).cloned().collect()
        };
        for resource in stopped {
            self.stop(&resource);
        }
        let started: Vec<Arc<dyn AnyInformer>> =
            wanted.iter().filter_map(|resource| self.start(resource)).collect();
        if started.is_empty() {
            return true;
        }
        tracing::info!(new = started.len(), all = wanted.len(), "following resources");
        let synced = join_all(started.iter().map(|informer| informer.synced()));
        if tokio::time::timeout(PATIENCE, synced).await.is_err() {
            let late = started.iter().filter(|informer| !informer.has_synced());
            let late: Vec<String> = late.map(|informer| informer.resource().to_string()).collect();
            tracing::warn!(?late, "some resources cannot be listed; collecting without them");
            self.errors.inc();
        }
        let kinds: Vec<Kind> = started.iter().map(|informer| kind_of(informer.resource())).collect();
        self.collector.change(Priority::Sweep, |graph| graph.known(&kinds));
        true
    }

    fn learn(&self, discovery: &Discovery) {
        let mut fresh = Catalog::new(discovery);
        let mut catalog = self.catalog.write();
        fresh.keep_failed(&catalog, discovery);
        *catalog = fresh;
    }

    fn is_ignored(&self, resource: &ResourceType) -> bool {
        let ignored = &self.cx.config.garbage_collector_controller.gc_ignored_resources;
        ignored.iter().any(|other| resource.group == other.group && resource.plural == other.resource)
    }

    fn working(&self) -> impl Iterator<Item = ResourceType> {
        let running = self.running.lock();
        let synced = running.iter().filter(|(_, monitor)| monitor.informer.has_synced());
        synced.map(|(resource, _)| resource.clone()).collect::<Vec<_>>().into_iter()
    }

    /// Feeds the graph from a resource, unless it is already; `Some` if it was not.
    fn start(&self, resource: &ResourceType) -> Option<Arc<dyn AnyInformer>> {
        if self.running.lock().contains_key(resource) {
            return None;
        }
        let informer = self.cx.informers.observe(resource);
        let kind = kind_of(resource);
        let (collector, news, followed) = (self.collector.clone(), self.news.clone(), self.followed.clone());
        let (tells_of_others, changes) = (defines_resources(resource), self.changes.clone());
        let subscription = informer.subscribe_meta(Box::new(move |change| {
            changes.through(|| {
                collector.change(priority(change.origin), |graph| graph.observe(&kind, change));
            });
            if tells_of_others && change.origin.is_fresh() {
                followed.store(false, Ordering::Release);
                news.notify_one();
            }
        }));
        let monitor = Monitor { informer: informer.clone(), _subscription: subscription };
        self.running.lock().insert(resource.clone(), monitor);
        Some(informer)
    }

    fn stop(&self, resource: &ResourceType) {
        let Some(monitor) = self.running.lock().remove(resource) else { return };
        drop(monitor);
        self.cx.informers.stop(resource);
        self.collector.change(Priority::Change, |graph| graph.unfollow(&kind_of(resource)));
        tracing::info!(%resource, "no longer served; not followed any more");
    }
}

fn kind_of(resource: &ResourceType) -> Kind {
    Kind { api_version: resource.api_version(), kind: resource.kind.clone() }
}

/// Whether objects of this resource make other resources come and go.
fn defines_resources(resource: &ResourceType) -> bool {
    matches!(
        (resource.group.as_str(), resource.plural.as_str()),
        ("apiextensions.k8s.io", "customresourcedefinitions") | ("apiregistration.k8s.io", "apiservices")
    )
}
