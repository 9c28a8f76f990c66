//! The shell: rounds over all Nodes, questions to the cloud, taints and deletions.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Node, Object, PartialObject, Resource};
use flyball_cache::Informer;
use flyball_client::{Error, Patch};
use flyball_runtime::events::ObjectRef;
use flyball_runtime::metrics::RunningController;
use flyball_runtime::{Chain, Context, exactly};

use super::plan::{Action, Look, Machine, look, plan, tainting};
use crate::CloudError;
use crate::provider::AnyInstances;
use crate::surroundings::all;

/// Machines that are asked about at once.
const AT_ONCE: usize = 16;
/// How often a patch of taints is tried against others who write the node.
const TRIES: usize = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(100);
/// A period of nothing would leave no time for anything else.
const SHORTEST_PERIOD: Duration = Duration::from_millis(10);

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) instances: Arc<dyn AnyInstances>,
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) running: RunningController,
}

impl Controller {
    pub(super) async fn run(self, period: Duration) {
        self.running.begin();
        loop {
            let mut nodes = self.nodes.store().list();
            nodes.sort_unstable_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
            all(AT_ONCE, nodes.iter().map(|node| self.attend(node))).await;
            tokio::time::sleep(period.max(SHORTEST_PERIOD)).await;
        }
    }

    async fn attend(&self, node: &Node) {
        let name = &node.metadata.name;
        let (tainted, why) = match look(node) {
            Look::Well => return,
            Look::Recovered => (false, "it is ready again"),
            Look::Silent => {
                let machine = match self.machine(node).await {
                    Ok(machine) => machine,
                    Err(error) => {
                        tracing::warn!(node = %name, error = %Chain(&error), "the cloud does not say what became of a machine; asking again in the next round");
                        return;
                    }
                };
                match plan(node, machine) {
                    Action::Leave => return,
                    Action::Delete => return self.delete(node).await,
                    Action::Taint => (true, "its machine is shut down"),
                }
            }
        };
        match self.taint(node, tainted, why).await {
            Err(error) if !error.is_not_found() => {
                tracing::warn!(node = %name, error = %Chain(&error), "cannot change a taint; trying again in the next round");
            }
            _ => {}
        }
    }

    /// Asks the cloud. Whatever it does not know for certain is an error, and nothing follows from it: only a plain
    /// no deletes a Node, as clouds say "not found" of an account or a region that they cannot reach, too.
    async fn machine(&self, node: &Node) -> Result<Machine, CloudError> {
        if !self.instances.exists(node).await? {
            return Ok(Machine::Gone);
        }
        match self.instances.is_shut_down(node).await {
            Ok(true) => Ok(Machine::ShutDown),
            Ok(false) | Err(CloudError::NotImplemented) => Ok(Machine::There),
            Err(error) => Err(error),
        }
    }

    async fn delete(&self, node: &Node) {
        let (key, name) = (node.key(), &node.metadata.name);
        let about = ObjectRef::named::<Node>("", name, &node.metadata.uid);
        let message = format!("Deleting node {name} because it does not exist in the cloud provider");
        self.cx.events.normal(&about, "DeletingNode", message);
        let why = "its machine does not exist any more";
        let deleted =
            self.cx.writer(&key).unawaited().delete::<Node>(&key, exactly(&node.metadata), why).await;
        if let Err(error) = deleted
            && !error.is_not_found()
        {
            let error = Chain(&error);
            tracing::warn!(node = %name, %error, "cannot delete a node; trying again in the next round");
            let message = format!("Failed deleting node {name}: {error}");
            self.cx.events.warning(&about, "DeletingNodeFailed", message);
        }
    }

    /// Changes the taint; from the cache at first, and with a look at the server if that was too old.
    async fn taint(&self, node: &Node, tainted: bool, why: &'static str) -> Result<(), Error> {
        let key = node.key();
        let mut fresh: Option<Node> = None;
        for attempt in 1.. {
            let seen = fresh.as_ref().unwrap_or(node);
            let Some(patch) = tainting(seen, tainted) else { return Ok(()) };
            let writer = self.cx.writer(&key).unawaited();
            let patch = Patch::Strategic(patch);
            match writer.patch_dynamic::<PartialObject>(&Node::TYPE, &key, None, patch, why).await {
                Err(error) if error.is_conflict() && attempt < TRIES => {}
                other => return other.map(|_| ()),
            }
            if fresh.is_some() {
                tokio::time::sleep(BETWEEN_TRIES).await;
            }
            fresh = Some(self.cx.client.get::<Node>(&key).await?);
        }
        Ok(())
    }
}
