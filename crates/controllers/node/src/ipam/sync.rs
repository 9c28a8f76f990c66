//! The shell: wait until all nodes are known, then allocate, plan, execute. The blocks in use are kept in the pool, not in
//! a view: no two nodes may get the same ones while writes are under way.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, Node, Object, PartialObject, Resource};
use flyball_cache::Informer;
use flyball_client::ListParams;
use flyball_queue::{Priority, Queue};
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::metrics::RunningController;
use flyball_runtime::{Chain, Complaint, Context, Next, Reconcile, SyncError};

use super::invariants;
use super::metrics::SharedPool;
use super::plan::plan;
use super::pool::{Allocation, InvalidPodCidr, Requeue};
use super::settings::Settings;

/// How many nodes with invalid podCIDRs are named.
const LISTED: usize = 5;
/// The pause before the nodes are listed again.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) pool: Arc<SharedPool>,
    pub(super) complaint: Complaint,
    pub(super) queue: Queue<Key>,
    pub(super) running: RunningController,
}

impl Controller {
    /// Begins to allocate, once this process leads. The cache may be stale by then, and the last leader may have allocated
    /// blocks that it does not show: it must first reach what the server has now.
    pub(super) async fn open(&self) {
        self.running.begin();
        loop {
            let all = ListParams { metadata_only: true, ..ListParams::default() };
            match self.cx.client.list_as::<PartialObject>(&Node::TYPE, None, &all).await {
                Ok(list) => {
                    let newest = list.items.iter().map(|node| node.metadata.resource_version).max();
                    if let Some(newest) = newest {
                        self.nodes.reached(newest).await;
                    }
                    break;
                }
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), again_in = ?PAUSE, "cannot list the nodes; no podCIDRs are assigned");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        // Under the lock, so that no node is updated in between.
        let opened = self.pool.with(|pool| {
            pool.open().inspect_err(|invalid| {
                self.complaint.raise(format!("no podCIDRs are assigned: {}", listed(invalid)));
            })
        });
        match opened {
            Ok(()) => requeue(Requeue::All, &self.nodes, &self.queue),
            Err(invalid) => {
                let nodes = listed(&invalid);
                tracing::error!(%nodes, "no podCIDRs are assigned while nodes do not fit --cluster-cidr");
            }
        }
    }
}

/// The first few nodes with invalid podCIDRs, and how many more there are.
fn listed(invalid: &[InvalidPodCidr]) -> String {
    let mut text = invalid.iter().take(LISTED).map(ToString::to_string).collect::<Vec<_>>().join("; ");
    if invalid.len() > LISTED {
        text += &format!("; and {} more", invalid.len() - LISTED);
    }
    text
}

/// Requeues nodes for which blocks have become available.
pub(super) fn requeue(requeue: Requeue, nodes: &Informer<Node>, queue: &Queue<Key>) {
    match requeue {
        Requeue::None => {}
        Requeue::Nodes(names) => {
            names.into_iter().for_each(|name| queue.add(Key::cluster(name), Priority::Change));
        }
        Requeue::All => {
            let without = nodes.store().list().into_iter().filter(|node| node.spec.pod_cidrs.is_empty());
            without.for_each(|node| queue.add(node.metadata.key(), Priority::Sweep));
        }
    }
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let node = self.nodes.store().get(key).filter(|node| !node.is_deleting());
        let Some(node) = node else { return Ok(Next::Settled) };
        let allocation = self.pool.with(|pool| pool.allocate(&node));
        if let Allocation::Reserved(networks) = &allocation {
            self.cx.judge(|| {
                let nodes: Vec<Node> =
                    self.nodes.store().list().iter().map(|node| Node::clone(node)).collect();
                invariants::check(&Settings::of(&self.cx.config)?, &nodes, &node, networks)
            });
        }
        let about = ObjectRef::named::<Node>("", &node.metadata.name, &node.metadata.uid);
        self.cx.executor(key).events(&self.events).about(about).execute(plan(&node, &allocation)).await
    }
}
