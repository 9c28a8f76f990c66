//! The shell: look up, plan, execute.

use std::sync::Arc;

use flyball_api::{Key, Node};
use flyball_cache::Informer;
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use parking_lot::Mutex;

use super::plan::{ClusterSize, plan};

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) size: Arc<Mutex<ClusterSize>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(node) = self.nodes.store().get(key) else { return Ok(Next::Settled) };
        let plan = plan(&node, *self.size.lock());
        self.cx.executor(key).execute(plan).await
    }
}
