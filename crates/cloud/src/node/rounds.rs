//! The shell of the rounds that keep the addresses of Nodes up to date. Clouds do not report changes, so all Nodes are looked
//! up in each round.

use std::sync::Arc;

use flyball_api::Node;
use flyball_cache::Informer;
use flyball_runtime::metrics::RunningController;
use flyball_runtime::{Chain, Effect, Periodic, Plan, SyncError};

use super::addresses;
use super::plan::is_uninitialized;
use super::sync::metadata;
use crate::Metadata;
use crate::provider::AnyInstances;
use crate::surroundings::{all, nodes_by_name};

pub(super) struct Addresses {
    pub(super) instances: Arc<dyn AnyInstances>,
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) at_once: usize,
    pub(super) running: RunningController,
}

/// An initialised Node, and the cloud's metadata of its machine.
pub(super) struct Observed {
    node: Arc<Node>,
    metadata: Option<Metadata>,
}

impl Periodic for Addresses {
    type Memory = ();
    type Observations = Vec<Observed>;
    type Tag = ();

    async fn observe(&self, (): &()) -> Result<Vec<Observed>, SyncError> {
        self.running.begin();
        let nodes = nodes_by_name(&self.nodes).into_iter().filter(|node| !is_uninitialized(node));
        let observed = all(self.at_once, nodes.map(|node| self.look_up(node))).await;
        Ok(observed.into_iter().flatten().collect())
    }

    fn round((): (), observed: &Vec<Observed>) -> ((), Plan) {
        let plan = |observed: &Observed| addresses::plan(&observed.node, observed.metadata.as_ref());
        ((), Plan::of([Effect::concurrent(observed.iter().filter_map(plan))]))
    }
}

impl Addresses {
    /// `None` if the request to the cloud fails.
    async fn look_up(&self, node: Arc<Node>) -> Option<Observed> {
        match metadata(&*self.instances, &node).await {
            Ok(metadata) => Some(Observed { node, metadata }),
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "cannot update the addresses of a node; trying again in the next round");
                None
            }
        }
    }
}
