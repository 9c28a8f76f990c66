//! The shell: a snapshot of all Nodes and the cloud's answers about those that are not Ready, once per round.

use std::sync::Arc;

use flyball_api::Node;
use flyball_cache::Informer;
use flyball_runtime::metrics::RunningController;
use flyball_runtime::{Chain, Periodic, Plan, SyncError};

use super::invariants;
use super::plan::{Machine, Observed, needs_lookup, plan};
use crate::CloudError;
use crate::provider::AnyInstances;
use crate::surroundings::{all, nodes_by_name};

/// How many machines are looked up at once.
const CONCURRENCY: usize = 16;

pub(super) struct Controller {
    pub(super) instances: Arc<dyn AnyInstances>,
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) running: RunningController,
}

impl Periodic for Controller {
    type Memory = ();
    type Observations = Vec<Observed>;
    type Tag = ();

    async fn observe(&self, (): &()) -> Result<Vec<Observed>, SyncError> {
        self.running.begin();
        let nodes = nodes_by_name(&self.nodes);
        Ok(all(CONCURRENCY, nodes.into_iter().map(|node| self.look_up(node))).await)
    }

    fn round((): (), nodes: &Vec<Observed>) -> ((), Plan) {
        ((), plan(nodes))
    }

    fn check(nodes: &Vec<Observed>, plan: &Plan) -> Result<(), String> {
        invariants::check(nodes, plan)
    }
}

impl Controller {
    async fn look_up(&self, node: Arc<Node>) -> Observed {
        if !needs_lookup(&node) {
            return Observed { node, machine: None };
        }
        let machine = self.machine(&node).await.inspect_err(|error| {
            tracing::warn!(node = %node.metadata.name, error = %Chain(error), "cannot look up the machine of a node; trying again in the next round");
        });
        Observed { machine: machine.ok(), node }
    }

    /// An error, even [`CloudError::InstanceNotFound`], leaves the Node alone: clouds also return it for an account or a
    /// region that they cannot reach.
    async fn machine(&self, node: &Node) -> Result<Machine, CloudError> {
        if !self.instances.exists(node).await? {
            return Ok(Machine::Gone);
        }
        match self.instances.is_shut_down(node).await {
            Ok(true) => Ok(Machine::ShutDown),
            Ok(false) | Err(CloudError::NotImplemented) => Ok(Machine::Exists),
            Err(error) => Err(error),
        }
    }
}
