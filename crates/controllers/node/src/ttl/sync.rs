//! The shell: look up, compare, patch.

use std::sync::Arc;

use flyball_api::{Key, Node};
use flyball_cache::Informer;
use flyball_client::Patch;
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use parking_lot::Mutex;
use serde_json::json;

use super::plan::{ANNOTATION, ClusterSize, plan};

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) size: Arc<Mutex<ClusterSize>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(node) = self.nodes.store().get(key) else { return Ok(Next::Settled) };
        let size = *self.size.lock();
        let Some(seconds) = plan(&node, size) else { return Ok(Next::Settled) };
        let patch = json!({"metadata": {"annotations": {ANNOTATION: seconds.to_string()}}});
        let why = format!("{seconds} seconds fit the size of the cluster");
        match self.cx.writer(key).patch::<Node>(key, None, Patch::Strategic(patch), why).await {
            Err(error) if !error.is_not_found() => {
                Err(SyncError::api(format!("annotating node {key}"))(error))
            }
            _ => Ok(Next::Settled),
        }
    }
}
