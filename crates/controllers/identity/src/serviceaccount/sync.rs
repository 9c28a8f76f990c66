//! The shell: look up, plan, execute.

use std::sync::Arc;

use flyball_api::{Key, Namespace, ServiceAccount};
use flyball_cache::Informer;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::plan::plan;

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) namespaces: Arc<Informer<Namespace>>,
    pub(super) accounts: Arc<Informer<ServiceAccount>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(namespace) = self.namespaces.store().get(key) else { return Ok(Next::Settled) };
        let plan = plan(&namespace, |account| self.accounts.store().get(account).is_some());
        self.cx.executor(key).execute(plan).await
    }
}
