//! Watches what the server serves: one informer for each resource that can be collected feeds the graph.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flyball_api::ResourceType;
use flyball_cache::{AnyInformer, Subscription};
use flyball_client::Discovery;
use flyball_common::discovery::{Coverage, Follow, filled};
use flyball_queue::Priority;
use flyball_runtime::metrics::{Counter, Family, Passage, Stability};
use flyball_runtime::{Context, priority};
use parking_lot::{Mutex, RwLock};

use super::catalog::{Catalog, Changes, changes, deletable, may_change_resources};
use super::graph::{Graph, Trigger};
use super::identity::Kind;
use super::live::Live;
use super::sync::Collector;

/// How long lists may take before the collector works without them.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The same while there are resources that could not be listed: orphans wait for discovery, so many definitions that fail one after
/// the other must not hold it up for [`TIMEOUT`] each.
const SHORT_TIMEOUT: Duration = Duration::from_secs(3);

static SYNC_ERRORS: Family = Family::counter(
    "garbagecollector_controller_resources_sync_error_total",
    Stability::Alpha,
    &[],
    "Number of garbage collector resources sync errors",
);

/// The informers that feed the graph.
pub(super) struct Monitors {
    cx: Arc<Context>,
    collector: Arc<Collector<Live>>,
    catalog: Arc<RwLock<Catalog>>,
    /// Whether all resources are watched that the server serves.
    coverage: Coverage,
    running: Mutex<BTreeMap<ResourceType, Monitor>>,
    /// Informers that replace one of another version, once they are complete.
    successors: Mutex<BTreeMap<ResourceType, Arc<dyn AnyInformer>>>,
    errors: Counter,
    changes: Arc<Passage>,
}

struct Monitor {
    informer: Arc<dyn AnyInformer>,
    /// Whether its changes are applied to the graph. Changed only while the graph is locked, so that a change that is
    /// delivered while the subscription ends is ignored.
    is_active: Arc<AtomicBool>,
    _subscription: Subscription,
}

impl Monitors {
    pub(super) fn new(
        cx: Arc<Context>,
        collector: Arc<Collector<Live>>,
        catalog: Arc<RwLock<Catalog>>,
        coverage: Coverage,
    ) -> Self {
        Self {
            errors: cx.metrics.counter(&SYNC_ERRORS, &[]),
            changes: Arc::new(cx.metrics.passage("garbage_collector_graph_changes")),
            running: Mutex::default(),
            successors: Mutex::default(),
            cx,
            collector,
            catalog,
            coverage,
        }
    }
}

impl Follow for Monitors {
    /// Starts informers of resources that are new and stops those of resources that are no longer served.
    async fn follow(&self, discovery: &Discovery) {
        let is_new = self.update_catalog(discovery);
        let wanted = deletable(discovery, |resource| self.is_ignored(resource), self.working());
        let running: BTreeSet<ResourceType> = self.running.lock().keys().cloned().collect();
        let changes = changes(&running, &wanted);
        let has_changed = is_new || changes != Changes::default();
        self.carry_out(changes, wanted.len()).await;
        self.collector.served(has_changed);
    }

    fn failed(&self) {
        self.errors.inc();
    }

    fn ended(&self) {
        self.collector.discovered();
    }
}

impl Monitors {
    async fn carry_out(&self, changes: Changes, all: usize) {
        for resource in &changes.stop {
            self.stop(resource);
        }
        let mut started: Vec<Arc<dyn AnyInformer>> =
            changes.start.iter().map(|resource| self.start(resource)).collect();
        let kinds: Vec<Kind> = changes.start.iter().map(kind_of).collect();
        started.extend(self.prepare(&changes.succeed));
        for informer in &started {
            self.cx.needs(informer);
        }
        if !started.is_empty() {
            tracing::info!(new = started.len(), all, "watching resources");
            self.wait_for(&started).await;
        }
        for (resource, versions) in &changes.succeed {
            self.succeed(resource, versions);
        }
        self.collector.change(Priority::Sweep, |graph| graph.known(&kinds));
    }

    /// Waits for the lists of new informers, up to a limit.
    async fn wait_for(&self, started: &[Arc<dyn AnyInformer>]) {
        let is_new = |informer: &Arc<dyn AnyInformer>| started.iter().any(|new| Arc::ptr_eq(new, informer));
        let is_late = |monitor: &Monitor| !monitor.informer.has_synced() && !is_new(&monitor.informer);
        let has_late = self.running.lock().values().any(is_late);
        let patience = if has_late { SHORT_TIMEOUT } else { TIMEOUT };
        let late = filled(started, patience).await;
        if !late.is_empty() {
            tracing::warn!(?late, "some resources cannot be listed; collecting without them");
            self.errors.inc();
        }
    }

    /// Returns whether anything has changed.
    fn update_catalog(&self, discovery: &Discovery) -> bool {
        let mut fresh = Catalog::new(discovery);
        let mut catalog = self.catalog.write();
        fresh.keep_failed(&catalog, discovery);
        let is_new = *catalog != fresh;
        *catalog = fresh;
        is_new
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

    /// Feeds the graph from a resource.
    fn start(&self, resource: &ResourceType) -> Arc<dyn AnyInformer> {
        let informer = self.cx.informers.observe(resource);
        let kind = kind_of(resource);
        let (collector, coverage) = (self.collector.clone(), self.coverage.clone());
        let (is_definition, changes) = (defines_resources(resource), self.changes.clone());
        let is_active = Arc::new(AtomicBool::new(true));
        let subscription = self.cx.subscribe_meta(&*informer, {
            let is_active = is_active.clone();
            move |change| {
                changes.through(|| {
                    collector.change(priority(change.origin), |graph| {
                        if is_active.load(Ordering::Acquire) { graph.observe(&kind, change) } else { vec![] }
                    });
                });
                if is_definition && change.origin.is_fresh() && may_change_resources(change.old, change.new) {
                    coverage.expire();
                }
            }
        });
        let monitor = Monitor { informer: informer.clone(), is_active, _subscription: subscription };
        self.running.lock().insert(resource.clone(), monitor);
        informer
    }

    fn stop(&self, resource: &ResourceType) {
        self.retire(resource, |graph| graph.unfollow(&kind_of(resource)));
        tracing::info!(%resource, "no longer served; not watched any more");
    }

    /// Stops a monitor and applies `change`; later changes of its cache are ignored.
    fn retire(&self, resource: &ResourceType, change: impl FnOnce(&mut Graph) -> Vec<Trigger>) {
        let Some(monitor) = self.running.lock().remove(resource) else { return };
        self.collector.change(Priority::Change, |graph| {
            monitor.is_active.store(false, Ordering::Release);
            change(graph)
        });
        drop(monitor);
        // Others may use the informer, too.
        self.cx.informers.release(resource);
    }

    /// Starts the informers that are to replace others, without feeding the graph from them, and releases those that no
    /// longer are.
    fn prepare(&self, successions: &[(ResourceType, Vec<ResourceType>)]) -> Vec<Arc<dyn AnyInformer>> {
        let observed = successions.iter().map(|(new, _)| (new.clone(), self.cx.informers.observe(new)));
        let successors: BTreeMap<ResourceType, Arc<dyn AnyInformer>> = observed.collect();
        let informers = successors.values().cloned().collect();
        let before = std::mem::replace(&mut *self.successors.lock(), successors);
        for (resource, informer) in before {
            drop(informer);
            if !self.running.lock().contains_key(&resource) {
                self.cx.informers.release(&resource);
            }
        }
        informers
    }

    /// Watches a resource in another version. Until the informer of the new version is complete, the old ones stay:
    /// without them, the foreground deletion of an owner would be completed although dependents block it.
    fn succeed(&self, resource: &ResourceType, versions: &[ResourceType]) {
        let new = kind_of(resource);
        let is_complete = self.successors.lock().get(resource).is_some_and(|informer| informer.has_synced());
        if !is_complete {
            return;
        }
        for version in versions {
            self.retire(version, |graph| {
                graph.succeed(&kind_of(version), &new);
                vec![]
            });
        }
        let informer = self.start(resource);
        self.successors.lock().remove(resource);
        self.collector.change(Priority::Change, |graph| {
            graph.unshown(&new, |identity| {
                let mut is_shown = false;
                informer.look_at(&identity.key(), &mut |meta| is_shown = meta.uid == identity.uid);
                is_shown
            })
        });
        tracing::info!(%resource, "served in another version; watched in that one from now on");
    }
}

fn kind_of(resource: &ResourceType) -> Kind {
    Kind::new(resource.api_version(), resource.kind.clone())
}

/// Whether objects of this resource define other resources.
fn defines_resources(resource: &ResourceType) -> bool {
    matches!(
        (resource.group.as_str(), resource.plural.as_str()),
        ("apiextensions.k8s.io", "customresourcedefinitions") | ("apiregistration.k8s.io", "apiservices")
    )
}
