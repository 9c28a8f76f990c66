//! The shell: look up, plan, execute.

use std::sync::Arc;

use flyball_api::{ClusterRole, Key};
use flyball_cache::Informer;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::plan::plan;

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) roles: Arc<Informer<ClusterRole>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let store = self.roles.store();
        let Some(role) = store.get(key) else { return Ok(Next::Settled) };
        self.cx.executor(key).execute(plan(&role, &store.list())).await
    }
}
