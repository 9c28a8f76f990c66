//! The shell: look up, decide, write.

use std::sync::Arc;

use flyball_api::{Key, PersistentVolume};
use flyball_cache::Informer;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use crate::finalizer::{self, Need, need};
use crate::names::BOUND;

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) volumes: Arc<Informer<PersistentVolume>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(volume) = self.volumes.store().get(key) else { return Ok(Next::Settled) };
        match need(&*volume) {
            Need::Protect => {
                let why = "claims may be bound to it";
                finalizer::write(&self.cx, &finalizer::protected(&*volume), why).await?;
            }
            Need::Verdict if volume.status.phase != BOUND => {
                finalizer::write(&self.cx, &finalizer::released(&*volume), "no claim is bound to it").await?;
            }
            Need::Verdict | Need::Nothing => {}
        }
        Ok(Next::Settled)
    }
}
