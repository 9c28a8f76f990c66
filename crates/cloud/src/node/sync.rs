//! The shell: query the cloud, plan, execute. Initialisation reads the Node from the server and plans again after each conflict,
//! because its PUT needs the whole Node and the addresses are written afterwards. The order of the requests is here; every
//! decision is in `plan.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, Node, Object};
use flyball_cache::Informer;
use flyball_runtime::events::ObjectRef;
use flyball_runtime::{Context, Executor, Next, Plan, Reconcile, SyncError};
use parking_lot::Mutex;

use super::metrics::{Delays, observe};
use super::plan::{
    AfterAttempt, after_attempt, after_initialisation, check, initialise, is_uninitialized, plan,
};
use super::{addresses, invariants, labels};
use crate::Metadata;
use crate::provider::AnyInstances;

const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(50);

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) instances: Arc<dyn AnyInstances>,
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) delays: Delays,
    /// Nodes whose taint may have been removed, but whose addresses are not written yet.
    pub(super) pending_addresses: Mutex<BTreeSet<Key>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(node) = self.nodes.store().get(key) else {
            self.pending_addresses.lock().remove(key);
            return Ok(Next::Settled);
        };
        if is_uninitialized(&node) {
            return self.initialise(key, &node).await;
        }
        let executor = self.cx.executor(key);
        executor.execute(plan(&node)).await?;
        if self.pending_addresses.lock().contains(key) {
            let metadata = metadata(&*self.instances, &node).await?;
            executor.execute::<()>(Plan::of(addresses::plan(&node, metadata.as_ref()))).await?;
            self.pending_addresses.lock().remove(key);
        }
        Ok(Next::Settled)
    }
}

/// The cloud's metadata of the machine of a Node.
pub(super) async fn metadata(
    instances: &dyn AnyInstances,
    node: &Node,
) -> Result<Option<Metadata>, SyncError> {
    let doing = || format!("failed to get instance metadata for node {}", node.metadata.name);
    instances.metadata(node).await.map_err(|error| SyncError::other(doing(), error))
}

impl Controller {
    async fn initialise(&self, key: &Key, node: &Node) -> Result<Next, SyncError> {
        let name = &node.metadata.name;
        let Some(metadata) = metadata(&*self.instances, node).await? else {
            tracing::info!(node = %name, "not initialised: the cloud has no instance for the node");
            self.pending_addresses.lock().remove(key);
            return Ok(Next::Settled);
        };
        check(node, &metadata)
            .map_err(|unfit| SyncError::other(format!("initialising node {name}"), unfit))?;
        for (label, why) in labels::initial(&metadata, &node.metadata.labels).ignored {
            tracing::warn!(node = %name, %label, %why, "ignored a label of the cloud");
        }
        let executor = self.cx.executor(key).about(ObjectRef::of(node));
        // Before the write, since its response may be lost.
        self.pending_addresses.lock().insert(key.clone());
        let Some(live) = self.write(&executor, node, &metadata).await? else {
            self.pending_addresses.lock().remove(key);
            return Ok(Next::Settled);
        };
        observe(&self.delays.taint_removal, node, self.cx.clock.now());
        let outcome = executor.perform(after_initialisation(&live, &metadata)).await;
        observe(&self.delays.initial_sync, node, self.cx.clock.now());
        if outcome.is_ok() {
            self.pending_addresses.lock().remove(key);
        }
        outcome.result().map(|()| Next::Settled)
    }

    /// Writes the metadata of the cloud and removes the taint. Returns the Node after that; `None` if it is deleted.
    async fn write(
        &self,
        executor: &Executor<'_>,
        node: &Node,
        metadata: &Metadata,
    ) -> Result<Option<Node>, SyncError> {
        let key = node.key();
        for attempt in 1.. {
            let live = self.cx.find_with_raw::<Node>(&key).await?;
            let Some(live) = live.filter(|live| live.metadata.uid == node.metadata.uid) else {
                return Ok(None);
            };
            let mut after = Node::clone(&live);
            // If there is nothing to write, it was written before, perhaps by a request whose answer was lost.
            let Some(write) = initialise(live.raw().to_value(), &live, metadata) else {
                return Ok(Some(after));
            };
            self.cx.judge(|| invariants::check(&live, &write, metadata));
            match after_attempt(attempt, executor.perform([write]).await.answer())? {
                AfterAttempt::Initialised(written) => {
                    // The PUT changes neither status nor annotations, so the rest is as it was read.
                    if let Some(written) = written {
                        after.metadata.resource_version = written.resource_version;
                    }
                    return Ok(Some(after));
                }
                AfterAttempt::Gone => return Ok(None),
                AfterAttempt::Again => tokio::time::sleep(BETWEEN_ATTEMPTS).await,
            }
        }
        Ok(None)
    }
}
