//! The shell: observe, plan, execute.

use std::sync::Arc;

use flyball_api::Key;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::invariants;
use super::plan::{View, plan};
use super::shared::Shared;

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) shared: Arc<Shared>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(quota) = self.shared.quotas.store().get(key) else { return Ok(Next::Settled) };
        let usage = self.shared.usage(&quota, self.cx.clock.now());
        let view = View { quota: &quota, usage: &usage };
        let plan = plan(&view);
        self.cx.judge(|| invariants::check(&view, &plan));
        self.cx.executor(key).execute(plan).await
    }
}
