//! The shell: look up, plan, apply.

use std::sync::Arc;

use flyball_api::{ClusterRole, Key};
use flyball_cache::Informer;
use flyball_client::Patch;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::NAME;
use super::plan::{applied, plan};

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) roles: Arc<Informer<ClusterRole>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let store = self.roles.store();
        let Some(role) = store.get(key) else { return Ok(Next::Settled) };
        let planned = plan(&role, &store.list());
        let planned = planned.map_err(|error| {
            SyncError::other(format!("reading the selectors of ClusterRole {key}"), error).never()
        })?;
        if let Some(rules) = planned {
            let patch = Patch::Apply { manager: NAME.into(), force: true, object: applied(&role, &rules) };
            let why = "it must allow what the roles it selects allow";
            let written = self.cx.writer(key).patch::<ClusterRole>(key, None, patch, why).await;
            written.map_err(SyncError::api(format!("applying the rules of ClusterRole {key}")))?;
        }
        Ok(Next::Settled)
    }
}
