//! The shell of the health checks: reads the input of each step of [`super::round`], and applies its decisions to the
//! tainter and to metrics.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::{Key, Lease, Node, Resource};
use flyball_cache::{AnyInformer, Informer, Progress};
use flyball_client::ListParams;
use flyball_common::index::by_node;
use flyball_runtime::events::Recorder;
use flyball_runtime::{Chain, Context, Outcome, Periodic, Plan, SyncError};
use futures::{StreamExt, stream};
use rustc_hash::FxHashMap;
use serde_json::Value;
use smol_str::{SmolStr, format_smolstr};
use tokio::time::Instant;

use super::health::Now;
use super::invariants;
use super::metrics::NodeMetrics;
use super::plan::claims_ready;
use super::response::Taint;
use super::round::{Input, LiveLease, LiveNode, Memory, NodePods, Observations, Settings, Step, Tag};
use super::tainter::Tainter;

const LEASES: &str = "kube-node-lease";
/// The number of concurrent requests that read nodes, or list their pods.
const CONCURRENCY: usize = 8;
/// How long a round waits for the cache to show what it wrote. If it takes longer, the next round corrects the difference.
const CACHE_WAIT: Duration = Duration::from_secs(2);
/// How long it waits until the cache of leases shows the server's state: long enough for a list if the watch does not.
const LEASE_WAIT: Duration = Duration::from_secs(10);

pub(super) struct Monitor {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) leases: Arc<Informer<Lease>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) tainter: Arc<Tainter>,
    pub(super) settings: Settings,
    pub(super) metrics: NodeMetrics,
}

impl Periodic for Monitor {
    type Memory = Memory;
    type Observations = Observations;
    type Tag = Tag;

    async fn observe(&self, memory: &Memory) -> Result<Observations, SyncError> {
        let started = Instant::now();
        let input = match memory.step() {
            Step::Check => self.snapshot(),
            Step::Confirm { .. } => self.live(memory.suspects(), started).await,
            Step::Respond => self.settled_cache(memory).await,
            Step::MarkPods { batch, .. } => Input::Pods(self.read_pods(batch.clone()).await),
        };
        Ok(Observations { settings: self.settings, started, now: self.now(), input })
    }

    fn round(memory: Memory, observations: &Observations) -> (Memory, Plan<Tag>) {
        memory.round(observations)
    }

    fn restored(memory: &mut Memory) {
        memory.restored();
    }

    fn held(memory: &mut Memory) {
        memory.held();
    }

    fn publish(&self, memory: &mut Memory) {
        let report = memory.take_report();
        if report.refresh_leases {
            self.leases.refresh();
        }
        match report.is_suspended {
            Some(true) => tracing::info!("node health checks suspended: lease renewals may not be visible"),
            Some(false) => tracing::info!("node health checks resumed"),
            None => {}
        }
        report.removed_nodes.iter().for_each(|name| self.tainter.remove(name));
        match report.no_node_ready {
            Some(true) => tracing::warn!("no node is ready; evictions are stopped until a node is ready"),
            Some(false) => tracing::info!("a node is ready again; evictions resume"),
            None => {}
        }
        if let Some((tallies, rates)) = &report.zones {
            self.tainter.set_rates(rates);
            self.metrics.set_zones(tallies);
        }
        for (zone, view, response) in &report.responses {
            self.cx.judge(|| invariants::check(view, response));
            match response.taint {
                Taint::Queue => self.tainter.add(zone, &view.node.metadata.name),
                Taint::Clear => self.tainter.remove(&view.node.metadata.name),
                Taint::Keep | Taint::Replace => {}
            }
        }
    }

    fn events<'a>(&'a self, _: &'a Context) -> &'a Recorder {
        &self.events
    }

    fn finish(&self, memory: &mut Memory, outcome: &Outcome<Tag>) -> Option<Duration> {
        let next_step = memory.apply_outcome(outcome, Instant::now());
        if let Some(durations) = memory.take_durations() {
            durations.nodes.iter().for_each(|took| self.metrics.one_node.observe(took.as_secs_f64()));
            self.metrics.all_nodes.observe(durations.all.as_secs_f64());
        }
        next_step
    }
}

impl Monitor {
    fn snapshot(&self) -> Input {
        let counts = self.leases.counts();
        let mut nodes = self.nodes.store().list();
        nodes.sort_unstable_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        Input::Cluster {
            nodes: nodes.into_iter().map(|node| (node.clone(), self.lease_of(&node.metadata.name))).collect(),
            lease_messages: counts.events + counts.bookmarks + counts.pages,
            is_healthy: self.leases.health().is_healthy() && self.nodes.health().is_healthy(),
        }
    }

    /// Nodes as the server has them. Their leases, of which there may be thousands, are taken from the cache once that is known to
    /// show the server's state: events of a watch may come, and be as old as the grace period.
    async fn live(&self, names: Vec<SmolStr>, since: Instant) -> Input {
        let leases: &dyn AnyInformer = &*self.leases;
        let is_current = tokio::time::timeout(LEASE_WAIT, leases.current_since(since)).await.is_ok();
        if !is_current {
            tracing::warn!(
                suspects = names.len(),
                "the leases of nodes cannot be seen; declaring none of them lost in this round"
            );
            return Input::Live { nodes: vec![], is_current };
        }
        Input::Live { nodes: self.read_nodes(names).await, is_current }
    }

    fn lease_of(&self, node: &str) -> Option<Arc<Lease>> {
        self.leases.store().get(&Key::new(LEASES, node))
    }

    async fn read_nodes(&self, names: Vec<SmolStr>) -> Vec<LiveNode> {
        let verifies = self.settings.verify > 0 && names.len() >= self.settings.verify;
        let leases = if verifies { Some(self.read_leases(names.len()).await) } else { None };
        let lease_of = |name: &SmolStr| match &leases {
            None => LiveLease::Known(self.lease_of(name)),
            Some(Some(leases)) => LiveLease::Known(leases.get(name).cloned()),
            Some(None) => LiveLease::Unreadable,
        };
        let lease_of = &lease_of;
        let reads = stream::iter(names).map(|name| async move {
            let node = self.cx.client.get_as(&Node::TYPE, &Key::cluster(name.clone()), None).await;
            if let Err(error) = &node {
                tracing::warn!(node = %name, error = %Chain(error), "cannot read a node that may be lost");
            }
            LiveNode { lease: lease_of(&name), name, node, now: self.now() }
        });
        reads.buffered(CONCURRENCY).collect().await
    }

    /// All leases of nodes as the server has them; `None` if they cannot be read.
    async fn read_leases(&self, suspects: usize) -> Option<FxHashMap<SmolStr, Arc<Lease>>> {
        tracing::warn!(suspects, "many nodes seem lost at once; reading their leases from the API server");
        match self.cx.listed::<Lease>(LEASES).await {
            Ok(leases) => {
                Some(leases.into_iter().map(|lease| (lease.metadata.name.clone(), Arc::new(lease))).collect())
            }
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "cannot read the leases; no node is declared lost meanwhile");
                None
            }
        }
    }

    /// The cached nodes, after the cache has caught up with the writes of this round (or after [`CACHE_WAIT`]).
    async fn settled_cache(&self, memory: &Memory) -> Input {
        if let Some(version) = memory.written() {
            let _ = tokio::time::timeout(CACHE_WAIT, self.nodes.reached(version)).await;
        }
        let nodes = self.nodes.store().list();
        Input::Cache {
            nodes: nodes.into_iter().map(|node| (node.metadata.name.clone(), node)).collect(),
            queued: self.tainter.queued(),
        }
    }

    async fn read_pods(&self, names: Vec<SmolStr>) -> Vec<NodePods> {
        let reads = stream::iter(names).map(|node| async move {
            let pods = self.pods_of(&node).await;
            if let Err(error) = &pods {
                tracing::warn!(%node, error = %Chain(error), "cannot list the pods of a node that is not ready");
            }
            NodePods { node, pods }
        });
        reads.buffered(CONCURRENCY).collect().await
    }

    /// Lists the pods of a node on the server. Returns none, without a request, if no cached pod has to be marked.
    async fn pods_of(&self, node: &str) -> Result<Vec<Value>, flyball_client::Error> {
        if !self.pods.store().by(&by_node(), node).iter().any(|pod| claims_ready(pod)) {
            return Ok(vec![]);
        }
        let on_node = ListParams {
            field_selector: Some(format_smolstr!("spec.nodeName={node}")),
            ..ListParams::default()
        };
        self.cx.client.list_dynamic(&Pod::TYPE, None, &on_node).await.map(|list| list.items)
    }

    fn now(&self) -> Now {
        Now { wall: self.cx.clock.now(), monotonic: Instant::now() }
    }
}
