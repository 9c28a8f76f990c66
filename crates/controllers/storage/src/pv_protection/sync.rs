//! The shell: look up, plan, execute.

use std::sync::Arc;

use flyball_api::{Key, PersistentVolume};
use flyball_cache::Informer;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::plan::plan;

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) volumes: Arc<Informer<PersistentVolume>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(volume) = self.volumes.store().get(key) else { return Ok(Next::Settled) };
        self.cx.executor(key).execute(plan(&volume)).await
    }
}
