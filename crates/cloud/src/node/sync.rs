//! The shell: ask the cloud, complete the Node, and keep its addresses up to date.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, Node, Object, PartialObject, Resource, WithRaw};
use flyball_cache::Informer;
use flyball_client::{Error, Patch};
use flyball_runtime::events::ObjectRef;
use flyball_runtime::metrics::{Family, Histogram, RunningController, Stability};
use flyball_runtime::{Chain, Context, Metrics, Next, Reconcile, SyncError};
use parking_lot::Mutex;

use super::addresses;
use super::plan::{Work, check, initialised, is_uninitialized, plan, relabelling};
use crate::Metadata;
use crate::provider::AnyInstances;
use crate::surroundings::all;

/// How often a Node is tried to be completed against others who write it.
const TRIES: usize = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(50);
/// A period of nothing would leave no time for anything else.
const SHORTEST_PERIOD: Duration = Duration::from_millis(10);

const DELAYS: &[f64] = &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];
static TAINT_REMOVAL: Family = Family::histogram(
    "node_controller_cloud_provider_taint_removal_delay_seconds",
    Stability::Alpha,
    &[],
    DELAYS,
    "Time from a node's creation until its uninitialized taint was taken away.",
);
static INITIAL_SYNC: Family = Family::histogram(
    "node_controller_initial_node_sync_delay_seconds",
    Stability::Alpha,
    &[],
    DELAYS,
    "Time from a node's creation until its initialisation was finished.",
);

pub(super) struct Numbers {
    taint_removal: Histogram,
    initial_sync: Histogram,
}

impl Numbers {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            taint_removal: metrics.histogram(&TAINT_REMOVAL, &[]),
            initial_sync: metrics.histogram(&INITIAL_SYNC, &[]),
        }
    }
}

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) instances: Arc<dyn AnyInstances>,
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) numbers: Numbers,
    pub(super) running: RunningController,
    /// Nodes that may have lost their taint, but whose addresses were not written yet.
    pub(super) owed: Mutex<BTreeSet<Key>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(node) = self.nodes.store().get(key) else {
            self.owed.lock().remove(key);
            return Ok(Next::Settled);
        };
        match plan(&node) {
            Work::Initialise => self.initialise(&node).await?,
            Work::Relabel(labels) => {
                let why = "the beta label counts, and the GA label follows it";
                let patch = Patch::Strategic(relabelling(&node, &labels));
                let writer = self.cx.writer(key);
                let written = writer.patch_dynamic::<PartialObject>(&Node::TYPE, key, None, patch, why).await;
                or_gone(written).map_err(SyncError::api(format!("labelling node {key}")))?;
            }
            Work::Nothing => {}
        }
        let owes = self.owed.lock().contains(key);
        if owes && !is_uninitialized(&node) {
            let metadata = self.ask(&node).await?;
            self.write_addresses(&node, metadata.as_ref()).await?;
        }
        Ok(Next::Settled)
    }
}

impl Controller {
    async fn ask(&self, node: &Node) -> Result<Option<Metadata>, SyncError> {
        let asked = self.instances.metadata(node).await;
        let failed = |error| {
            SyncError::other(
                format!("failed to get instance metadata for node {}", node.metadata.name),
                error,
            )
        };
        asked.map_err(failed)
    }

    async fn initialise(&self, node: &Node) -> Result<(), SyncError> {
        let (key, name) = (node.key(), &node.metadata.name);
        let Some(metadata) = self.ask(node).await? else {
            tracing::info!(node = %name, "the cloud says nothing about this node; it is left as it is");
            return Ok(());
        };
        check(node, &metadata)
            .map_err(|unfit| SyncError::other(format!("initialising node {name}"), unfit))?;
        // From the moment of the write on: whether it was done may not be heard.
        self.owed.lock().insert(key.clone());
        let Some(live) = self.complete(node, &metadata).await? else {
            self.owed.lock().remove(&key);
            return Ok(());
        };
        self.observe(&self.numbers.taint_removal, node);
        // Should that fail, the node is initialised nevertheless, and its addresses are owed to it.
        let addressed = self.write_addresses(&live, Some(&metadata)).await;
        self.cx.events.normal(&ObjectRef::of(node), "Synced", "Node synced successfully");
        self.observe(&self.numbers.initial_sync, node);
        addressed
    }

    /// Writes what the cloud knows, and lifts the taint. Gives the Node as it is then; none if it is gone.
    async fn complete(&self, node: &Node, metadata: &Metadata) -> Result<Option<Node>, SyncError> {
        let key = node.key();
        let doing = || format!("initialising node {key}");
        let mut refused = None;
        for attempt in 0..TRIES {
            if attempt > 0 {
                tokio::time::sleep(BETWEEN_TRIES).await;
            }
            let live = or_gone(self.cx.client.get_as::<WithRaw<Node>>(&Node::TYPE, &key, None).await)
                .map_err(SyncError::api(doing()))?;
            let Some(live) = live.filter(|live| live.metadata.uid == node.metadata.uid) else {
                return Ok(None);
            };
            if !is_uninitialized(&live) {
                // It was done, perhaps by ourselves without hearing of it.
                return Ok(Some((*live).clone()));
            }
            let body = initialised(live.raw().to_value(), &live, metadata);
            let why = format!("the cloud knows its machine as {}", metadata.provider_id);
            match self.cx.writer(&key).update::<Node>(&key, None, &body, why).await {
                Ok(complete) => return Ok(Some(complete)),
                Err(error) if error.is_conflict() => refused = Some(error),
                Err(error) if error.is_not_found() => return Ok(None),
                Err(error) => return Err(SyncError::api(doing())(error)),
            }
        }
        refused.map_or(Ok(None), |error| Err(SyncError::api(doing())(error)))
    }

    /// Writes the addresses that a Node should have, if it has others. The list is replaced as a whole, so it must
    /// still be the one that was looked at: the kubelet may just be adding its host's name.
    async fn write_addresses(&self, node: &Node, metadata: Option<&Metadata>) -> Result<(), SyncError> {
        let key = node.key();
        let doing = || format!("addressing node {key}");
        let provided = metadata.map(|metadata| metadata.addresses.as_slice()).unwrap_or_default();
        let mut fresh: Option<Node> = None;
        for attempt in 1.. {
            let seen = fresh.as_ref().unwrap_or(node);
            let wanted = addresses::wanted(seen, provided)
                .map_err(|problem| SyncError::other(doing(), problem).never())?;
            let Some(wanted) = wanted else { break };
            let patch = Patch::Strategic(addresses::patch(seen, &wanted));
            let (writer, why) = (self.cx.writer(&key).unawaited(), "its machine has other addresses");
            match writer.patch_dynamic::<PartialObject>(&Node::TYPE, &key, Some("status"), patch, why).await {
                Err(error) if error.is_conflict() && attempt < TRIES => {}
                written => {
                    or_gone(written).map_err(SyncError::api(doing()))?;
                    break;
                }
            }
            match or_gone(self.cx.client.get::<Node>(&key).await).map_err(SyncError::api(doing()))? {
                Some(live) if live.metadata.uid == node.metadata.uid => fresh = Some(live),
                _ => break,
            }
        }
        self.owed.lock().remove(&key);
        Ok(())
    }

    /// Keeps the addresses of all Nodes up to date, round by round, as a cloud tells of no changes.
    pub(super) async fn follow_addresses(self: Arc<Self>, period: Duration, at_once: usize) {
        self.running.begin();
        loop {
            let mut nodes = self.nodes.store().list();
            nodes.retain(|node| !is_uninitialized(node));
            nodes.sort_unstable_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
            all(at_once, nodes.iter().map(|node| self.follow(node))).await;
            tokio::time::sleep(period.max(SHORTEST_PERIOD)).await;
        }
    }

    async fn follow(&self, node: &Node) {
        let done = async {
            let metadata = self.ask(node).await?;
            self.write_addresses(node, metadata.as_ref()).await
        };
        if let Err(error) = done.await {
            let node = &node.metadata.name;
            tracing::warn!(%node, error = %Chain(&error), "cannot update the addresses of a node; trying again in the next round");
        }
    }

    fn observe(&self, histogram: &Histogram, node: &Node) {
        if let Some(created) = node.metadata.creation_timestamp {
            histogram.observe(self.cx.clock.now().duration_since(created).as_secs_f64());
        }
    }
}

/// An object that is gone needs nothing.
fn or_gone<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
