//! The shell: make sure that the books are complete, set blocks aside, patch nodes.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, Node, Object, PartialObject, Resource};
use flyball_cache::Informer;
use flyball_client::{Error, ListParams, Patch};
use flyball_queue::Queue;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::metrics::RunningController;
use flyball_runtime::{Chain, Complaint, Context, Next, Reconcile, SyncError};
use ipnet::IpNet;
use serde_json::json;

use super::invariants;
use super::metrics::Books;
use super::pool::{Misfit, Refusal, Wake};
use super::settings::Settings;
use super::wake_up;

/// How often a patch that is refused is tried at once.
const ATTEMPTS: usize = 3;
/// How many nodes are named when something is wrong with many.
const LISTED: usize = 5;
/// Between questions to a server that does not answer.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) books: Arc<Books>,
    pub(super) complaint: Complaint,
    pub(super) queue: Queue<Key>,
    pub(super) running: RunningController,
}

impl Controller {
    /// Opens the books, once this process leads. The cache may be behind by then, and whoever led before may have
    /// given blocks away that it does not show: it must come up to what the server has now.
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
                    tracing::warn!(error = %Chain(&error), "cannot list the nodes; no pod ranges are assigned before");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        // Nobody follows a change between the verdict and what is said of it.
        let verdict = self.books.with(|pool| {
            pool.open().inspect_err(|misfits| {
                self.complaint.raise(format!("no pod ranges are assigned: {}", listed(misfits)));
            })
        });
        if let Err(misfits) = verdict {
            let nodes = listed(&misfits);
            tracing::error!(%nodes, "no pod ranges are assigned while nodes do not fit --cluster-cidr");
            return;
        }
        wake_up(Wake::Everybody, &self.nodes, &self.queue);
    }

    fn tell(&self, node: &Node, reason: &'static str) {
        let name = &node.metadata.name;
        let about = ObjectRef::named::<Node>("", name, &node.metadata.uid);
        self.events.normal(&about, reason, format!("Node {name} status is now: {reason}"));
    }

    async fn assign(&self, node: &Node, networks: &[IpNet]) -> Result<(), SyncError> {
        let key = node.key();
        let ranges: Vec<String> = networks.iter().map(IpNet::to_string).collect();
        let why = format!("it has no pod range, and {} is free", ranges.join(" with "));
        let mut refused = None;
        for _ in 0..ATTEMPTS {
            let patch = json!({"spec": {"podCIDR": ranges.first(), "podCIDRs": ranges}});
            match self.cx.writer(&key).patch::<Node>(&key, None, Patch::Strategic(patch), &why).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_not_found() => return Ok(()),
                // It may have been carried out: only the server can tell.
                Err(error) if error.outcome_unknown() => return Err(failed(&key, error)),
                Err(error) => refused = Some(error),
            }
        }
        self.tell(node, "CIDRAssignmentFailed");
        refused.map_or(Ok(()), |error| Err(failed(&key, error)))
    }
}

/// The first few of the nodes that do not fit, and how many more there are.
fn listed(misfits: &[Misfit]) -> String {
    let mut text = misfits.iter().take(LISTED).map(Misfit::to_string).collect::<Vec<_>>().join("; ");
    if misfits.len() > LISTED {
        text += &format!("; and {} more", misfits.len() - LISTED);
    }
    text
}

fn failed(key: &Key, error: Error) -> SyncError {
    SyncError::api(format!("assigning a pod range to node {key}"))(error)
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let node = self.nodes.store().get(key).filter(|node| !node.is_deleting());
        let Some(node) = node else { return Ok(Next::Settled) };
        if !node.spec.pod_cidrs.is_empty() {
            let misfit = self.books.with(|pool| pool.misfit(&key.name).cloned());
            return misfit.map_or(Ok(Next::Settled), |misfit| Err(SyncError::invalid(misfit.to_string())));
        }
        let searched = self.books.searched();
        match self.books.with(|pool| pool.reserve(&node, searched)) {
            Ok(networks) => {
                self.cx.judge(|| {
                    let nodes: Vec<Node> =
                        self.nodes.store().list().iter().map(|node| Node::clone(node)).collect();
                    invariants::check(&Settings::of(&self.cx.config)?, &nodes, &node, &networks)
                });
                self.assign(&node, &networks).await?;
            }
            Err(Refusal::Closed) => {}
            Err(Refusal::Exhausted(cluster)) => {
                // It is brought back when a block comes free. As upstream, it tells from time to time until then.
                self.tell(&node, "CIDRNotAvailable");
                let problem = format!("no block of {cluster} is free");
                return Err(SyncError::other(format!("assigning a pod range to node {key}"), problem));
            }
        }
        Ok(Next::Settled)
    }
}
