//! The shells of the two queues: a node's change syncs its pods; a pod's sync observes, plans and executes.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Key, Node, Object, Uid};
use flyball_cache::Informer;
use flyball_common::index::by_node;
use flyball_queue::{Priority, Queue};
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::gates::Gate;
use flyball_runtime::metrics::{Counter, EVICTION_SECONDS, Family, Histogram, Stability};
use flyball_runtime::{Context, ErrorKinds, Next, Reconcile, SyncError};
use tokio::time::Instant;

use super::NAME;
use super::invariants;
use super::plan::{View, has_no_execute, plan};
use super::schedule::{Schedule, Stage};

static DELETIONS: Family = Family::counter(
    "taint_eviction_controller_pod_deletions_total",
    Stability::Alpha,
    &[],
    "Total number of Pods deleted by TaintEvictionController since its start.",
);
static LATENCY: Family = Family::histogram(
    "taint_eviction_controller_pod_deletion_duration_seconds",
    Stability::Alpha,
    &[],
    EVICTION_SECONDS,
    "Latency, in seconds, between the time when a taint effect has been activated for the Pod and its deletion via TaintEvictionController.",
);

/// Syncs the pods of nodes whose taints have changed.
pub(super) struct Nodes {
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) schedule: Arc<Schedule>,
    pub(super) pod_queue: Queue<Key>,
}

impl Reconcile for Nodes {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(node) = self.nodes.store().get(key) else { return Ok(Next::Settled) };
        let is_tainted = has_no_execute(&node.spec.taints);
        for pod in self.pods.store().by(&by_node(), &key.name) {
            let pod = pod.key();
            if is_tainted || self.schedule.has(&pod) {
                self.pod_queue.add(pod, Priority::Change);
            }
        }
        Ok(Next::Settled)
    }
}

pub(super) struct Pods {
    cx: Arc<Context>,
    /// Under the name of this controller, also where it is part of another one.
    events: Recorder,
    nodes: Arc<Informer<Node>>,
    pods: Arc<Informer<Pod>>,
    schedule: Arc<Schedule>,
    compares_numbers: bool,
    tracks_generation: bool,
    respects_budgets: bool,
    deletions: Counter,
    latency: Histogram,
}

impl Pods {
    pub(super) fn new(
        cx: Arc<Context>,
        nodes: Arc<Informer<Node>>,
        pods: Arc<Informer<Pod>>,
        schedule: Arc<Schedule>,
    ) -> Self {
        let compares_numbers = cx.gates.enabled(Gate::TaintTolerationComparisonOperators);
        let tracks_generation = cx.gates.enabled(Gate::PodObservedGenerationTracking);
        let (deletions, latency) = (cx.metrics.counter(&DELETIONS, &[]), cx.metrics.histogram(&LATENCY, &[]));
        let events = cx.events.with_source(NAME);
        let respects_budgets = cx.config.flyball.taint_eviction_respects_budgets;
        Self {
            events,
            cx,
            nodes,
            pods,
            schedule,
            compares_numbers,
            tracks_generation,
            respects_budgets,
            deletions,
            latency,
        }
    }
}

impl Reconcile for Pods {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let (pod, scheduled) = (self.pods.store().get(key), self.schedule.get(key));
        let node_of = |pod: &Arc<Pod>| self.nodes.store().get(&Key::cluster(pod.spec.node_name.clone()));
        let node = pod.as_ref().and_then(node_of);
        let taints = node.map(|node| node.spec.taints.clone());
        let view = View {
            key,
            pod: pod.as_deref(),
            taints: taints.as_deref(),
            scheduled: scheduled.as_ref(),
            compares_numbers: self.compares_numbers,
            tracks_generation: self.tracks_generation,
            respects_budgets: self.respects_budgets,
            now: Instant::now(),
            wall: self.cx.clock.now(),
        };
        let (eviction, plan) = plan(&view);
        self.cx.judge(|| invariants::check(&view, eviction.as_ref(), &plan));
        let executed = eviction.clone().filter(|eviction| eviction.stage == Stage::Announced);
        self.schedule.set(key, eviction);
        // Upstream's events name the pod without its uid.
        let about = ObjectRef::named::<Pod>(&key.namespace, &key.name, &Uid::default());
        let executor = self.cx.executor(key).about(about).events(&self.events);
        let done = executor.run(plan).await;
        for due in done.outcome.written().filter_map(|done| done.tag) {
            self.deletions.inc();
            self.latency.observe(due.elapsed().as_secs_f64());
        }
        // A change of the pod or of a budget brings a refused one back.
        let is_refused =
            done.outcome.ignored().any(|(_, error)| ErrorKinds::DISRUPTION_BUDGET.contains(error));
        if let Some(eviction) = executed.filter(|_| done.outcome.is_ok() && !is_refused) {
            let cached = pod.filter(|_| self.pods.store().get(key).is_some());
            self.schedule.set(key, eviction.after_deletion(cached.as_deref(), taints.as_deref()));
        }
        done.result()
    }
}
