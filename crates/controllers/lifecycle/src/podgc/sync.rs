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
use flyball_runtime::{Chain, Context, Outcome, Periodic, Plan, SyncError};
use futures::FutureExt;
use smol_str::SmolStr;

use super::plan::{Existence, Tag, View, nodes_of, plan};
use super::{invariants, metrics};

/// How long a node must be missing in the cache before a live read decides whether it is gone.
const QUARANTINE: Duration = Duration::from_secs(40);

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
        let nodes = self.cached_nodes(&pods);
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

    fn finish(&self, (): &mut (), outcome: &Outcome<Tag>) -> Option<Duration> {
        metrics::count(&self.cx.metrics, outcome);
        None
    }
}

impl Controller {
    /// The nodes that pods are bound to. Those that the cache does not have go into quarantine.
    fn cached_nodes(&self, pods: &[Arc<Pod>]) -> BTreeMap<SmolStr, Arc<Node>> {
        let mut nodes = BTreeMap::new();
        for name in nodes_of(pods) {
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
            match Existence::of(self.cx.client.get::<Node>(&key).await) {
                Existence::Exists => {}
                Existence::Gone => drop(gone.insert(key.name.clone())),
                Existence::Unknown(error) => {
                    tracing::warn!(node = %*key, error = %Chain(&error), "cannot check whether a node is gone");
                }
            }
        }
        gone
    }
}
