//! The shells of the two queues: observe, plan, execute.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Key, Node, Resource};
use flyball_cache::Informer;
use flyball_runtime::events::Recorder;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::invariants;
use super::plan::{mark, must_mark, plan};

/// Syncs the `NoSchedule` taints and deprecated labels of nodes.
pub(super) struct Nodes {
    pub(super) cx: Arc<Context>,
    pub(super) nodes: Arc<Informer<Node>>,
}

impl Reconcile for Nodes {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(node) = self.nodes.store().get(key) else { return Ok(Next::Settled) };
        let plan = plan(&node, self.cx.clock.now());
        self.cx.judge(|| invariants::check_node(&node, &plan));
        self.cx.executor(key).execute(plan).await
    }
}

/// Marks pods that are bound to a node that is not ready.
pub(super) struct Pods {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) pods: Arc<Informer<Pod>>,
}

impl Reconcile for Pods {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(pod) = self.pods.store().get(key) else { return Ok(Next::Settled) };
        let node = self.nodes.store().get(&Key::cluster(pod.spec.node_name.clone()));
        if !node.is_some_and(|node| must_mark(&node, &pod)) {
            return Ok(Next::Settled);
        }
        let Some(live) = self.cx.find_dynamic(&Pod::TYPE, key).await? else { return Ok(Next::Settled) };
        let executor = self.cx.executor(key).without_barrier().events(&self.events);
        let plan = mark(&pod, &live, self.cx.clock.now());
        self.cx.judge(|| invariants::check_mark(&live, &plan));
        executor.execute(plan).await
    }
}
