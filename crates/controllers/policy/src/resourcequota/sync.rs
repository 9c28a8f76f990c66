//! The shell: look up, sum up, write the status if it is news.

use std::sync::Arc;

use flyball_api::{Key, ResourceQuota, manifest_with_status};
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::board::Board;
use super::{invariants, plan};

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) board: Arc<Board>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(quota) = self.board.quotas.store().get(key) else { return Ok(Next::Settled) };
        let usage = self.board.usage(&quota, self.cx.clock.now());
        if let Some(status) = plan::status(&quota, &usage.used) {
            self.cx.judge(|| invariants::check(&quota, &usage, &status));
            let body = manifest_with_status(&*quota, &status);
            let why = plan::news(&quota, &status);
            match self.cx.writer(key).update_status::<ResourceQuota>(key, &body, why).await {
                Err(error) if error.is_not_found() => return Ok(Next::Settled),
                written => written.map_err(SyncError::api(format!("updating the status of quota {key}")))?,
            };
        }
        // What could be measured is told; for the rest there will be another time.
        match usage.unknown.as_slice() {
            [] => Ok(Next::Settled),
            [(group, plural), ..] => Err(SyncError::other(
                format!("summing up quota {key}"),
                format!("{plural}.{group} cannot be listed yet"),
            )),
        }
    }
}
