//! The shell: every 20 seconds, observe all pods and their nodes, and count the outcome of the plan. A live read decides whether
//! a node is gone; until then, the node waits in a work queue, so that there are the metrics of upstream's queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::{Key, Node};
use flyball_cache::Informer;
use flyball_queue::Queue;
use flyball_runtime::gates::Gate;
use flyball_runtime::metrics::{Family, Stability};
use flyball_runtime::{Chain, Context, Outcome, Periodic, Plan, SyncError};
use futures::FutureExt;
use smol_str::SmolStr;

use super::invariants;
use super::plan::{Step, Tag, View, plan};

/// How long a node must be missing in the cache before a live read decides whether it is gone.
const QUARANTINE: Duration = Duration::from_secs(40);

static DELETED: Family = Family::counter(
    "pod_gc_collector_force_delete_pods_total",
    Stability::Alpha,
    &["namespace", "reason"],
    "Pods that were deleted by force.",
);
static FAILED: Family = Family::counter(
    "pod_gc_collector_force_delete_pod_errors_total",
    Stability::Alpha,
    &["namespace", "reason"],
    "Pods that could not be deleted by force.",
);

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) nodes: Arc<Informer<Node>>,
    /// Nodes that were found missing, until their quarantine is over.
    pub(super) missing: Queue<Key>,
}

impl Periodic for Controller {
    type Memory = ();
    type Observations = View;
    type Tag = Tag;

    async fn observe(&self, (): &()) -> Result<View, SyncError> {
        let pods = self.pods.store().list();
        let nodes = self.nodes_of(&pods);
        let gone = self.gone_nodes().await;
        let threshold = self.cx.config.pod_gc_controller.terminated_pod_gc_threshold;
        let tracks_generation = self.cx.gates.enabled(Gate::PodObservedGenerationTracking);
        Ok(View { pods, threshold, nodes, gone, tracks_generation, now: self.cx.clock.now() })
    }

    fn round((): (), view: &View) -> ((), Plan<Tag>) {
        ((), plan(view))
    }

    fn check(view: &View, plan: &Plan<Tag>) -> Result<(), String> {
        invariants::check(view, plan)
    }

    /// Counts each pod once: as an attempt, and as a failure unless it was gone already. Writes that a doubt left out were no
    /// attempts: the round is repeated.
    fn finish(&self, (): &mut (), outcome: &Outcome<Tag>) -> Option<Duration> {
        let count = |family, Tag { namespace, reason, .. }: &Tag| {
            self.cx.metrics.counter(family, &[namespace, reason.label()]).inc();
        };
        let deletions = outcome.done.iter().map(|done| &done.tag).filter(|tag| tag.step == Step::Delete);
        let unmarked = outcome.ignored().map(|(tag, _)| tag).filter(|tag| tag.step == Step::Mark);
        let attempted = || outcome.failures.iter().filter(|failure| failure.error.is_some());
        let failed = || attempted().filter_map(|failure| failure.tag.as_ref());
        deletions.chain(unmarked).chain(failed()).for_each(|tag| count(&DELETED, tag));
        failed().for_each(|tag| count(&FAILED, tag));
        None
    }
}

impl Controller {
    /// The nodes that pods are bound to. Those that the cache does not have go into quarantine.
    fn nodes_of(&self, pods: &[Arc<Pod>]) -> BTreeMap<SmolStr, Arc<Node>> {
        // Many pods share a node, so each node is looked up once.
        let names: BTreeSet<&SmolStr> =
            pods.iter().map(|pod| &pod.spec.node_name).filter(|node| !node.is_empty()).collect();
        let mut nodes = BTreeMap::new();
        for name in names {
            match self.nodes.store().get(&Key::cluster(name.as_str())) {
                Some(node) => drop(nodes.insert(name.clone(), node)),
                None => self.missing.add_after(Key::cluster(name.as_str()), QUARANTINE),
            }
        }
        nodes
    }

    /// The nodes whose quarantine is over and that do not exist on the server.
    async fn gone_nodes(&self) -> BTreeSet<SmolStr> {
        let mut gone = BTreeSet::new();
        while let Some(Some(key)) = self.missing.next().now_or_never() {
            if self.nodes.store().get(&key).is_some() {
                continue;
            }
            match self.cx.client.get::<Node>(&key).await {
                Ok(_) => {}
                Err(error) if error.is_not_found() => drop(gone.insert(key.name.clone())),
                // The next round finds it missing again.
                Err(error) => {
                    tracing::warn!(node = %*key, error = %Chain(&error), "cannot check whether a node is gone");
                }
            }
        }
        gone
    }
}
