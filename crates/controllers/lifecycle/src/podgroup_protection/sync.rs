//! The shell: look up, plan, execute. The group is read live before it is written, as the cache holds only its metadata.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Key, PartialObject};
use flyball_cache::Informer;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::plan::{View, is_releasable, plan};
use super::{ACTIVE, POD_GROUPS};

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) groups: Arc<Informer<PartialObject>>,
    pub(super) pods: Arc<Informer<Pod>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(group) = self.groups.store().get(key) else { return Ok(Next::Settled) };
        let active = self.pods.store().by(&ACTIVE, &key.to_string());
        let whole = match is_releasable(&group, &active) {
            true => self.cx.whole_dynamic(&POD_GROUPS, key).await,
            false => Ok(None),
        };
        let whole = whole.map_err(SyncError::api(format!("reading PodGroup {key}")))?;
        self.cx.executor(key).execute(plan(View { group: &group, active: &active, whole })).await
    }
}
