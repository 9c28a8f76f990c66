//! The shells of the two queues: a node's change syncs its pods; a pod's sync observes, plans and executes.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Key, Node, Object, Uid};
use flyball_cache::Informer;
use flyball_common::index::by_node;
use flyball_queue::{Priority, Queue};
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::gates::Gate;
use flyball_runtime::metrics::{Counter, Family, Histogram, Stability};
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use tokio::time::Instant;

use super::NAME;
use super::plan::{View, has_no_execute, plan};
use super::schedule::{Cause, Eviction, Schedule, Stage};

static DELETIONS: Family = Family::counter(
    "taint_eviction_controller_pod_deletions_total",
    Stability::Alpha,
    &[],
    "Pods that were deleted because of a taint.",
);
static LATENCY: Family = Family::histogram(
    "taint_eviction_controller_pod_deletion_duration_seconds",
    Stability::Alpha,
    &[],
    &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0],
    "Time between the end of a pod's toleration time and its deletion.",
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
        Self { events, cx, nodes, pods, schedule, compares_numbers, tracks_generation, deletions, latency }
    }
}

impl Reconcile for Pods {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let (pod, scheduled) = (self.pods.store().get(key), self.schedule.get(key));
        let node_of = |pod: &Arc<Pod>| self.nodes.store().get(&Key::cluster(pod.spec.node_name.clone()));
        let node = pod.as_ref().and_then(node_of);
        let taints = node.map(|node| node.spec.taints.clone());
        let (eviction, plan) = plan(&View {
            key,
            pod: pod.as_deref(),
            taints: taints.as_deref(),
            scheduled: scheduled.as_ref(),
            compares_numbers: self.compares_numbers,
            tracks_generation: self.tracks_generation,
            now: Instant::now(),
            wall: self.cx.clock.now(),
        });
        let executed = eviction.clone().filter(|eviction| eviction.stage == Stage::Announced);
        self.schedule.set(key, eviction);
        // Upstream's events name the pod without its uid.
        let about = ObjectRef::named::<Pod>(&key.namespace, &key.name, &Uid::default());
        let executor = self.cx.executor(key).about(about).events(&self.events);
        let next = plan.next();
        executor.record_waiting(plan.waiting);
        let outcome = executor.perform(plan.effects).await;
        for due in outcome.written().filter_map(|done| done.tag) {
            self.deletions.inc();
            self.latency.observe(due.elapsed().as_secs_f64());
        }
        if let Some(eviction) = executed.filter(|_| outcome.is_ok()) {
            let is_there = self.pods.store().get(key).is_some();
            let cause = pod.filter(|_| is_there).map(|pod| Cause::of(&pod, taints.as_deref()));
            self.schedule.set(key, cause.map(|cause| Eviction { stage: Stage::Done(cause), ..eviction }));
        }
        outcome.result().map(|()| next)
    }
}
