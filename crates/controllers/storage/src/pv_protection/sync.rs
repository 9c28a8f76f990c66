//! The shell: look up, plan, execute.

use std::sync::Arc;

use flyball_api::{Key, PersistentVolume};
use flyball_cache::Informer;
use flyball_runtime::{Context, Next, Plan, Reconcile, SyncError};

use crate::finalizer::{self, Reasons};
use crate::names::BOUND;

const REASONS: Reasons = Reasons { protect: "claims may be bound to it", release: "no claim is bound to it" };

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) volumes: Arc<Informer<PersistentVolume>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(volume) = self.volumes.store().get(key) else { return Ok(Next::Settled) };
        let plan = Plan::of(finalizer::plan(&*volume, || volume.status.phase == BOUND, REASONS));
        self.cx.executor(key).execute::<()>(plan).await
    }
}
