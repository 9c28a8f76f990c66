//! The shell: look up, decide, write.

use std::sync::Arc;

use flyball_api::{Key, PersistentVolume, PersistentVolumeClaim, VolumeAttributesClass};
use flyball_cache::Informer;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::{CLAIMS, VOLUMES};
use crate::finalizer::{self, Need, need};

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) classes: Arc<Informer<VolumeAttributesClass>>,
    pub(super) claims: Arc<Informer<PersistentVolumeClaim>>,
    pub(super) volumes: Arc<Informer<PersistentVolume>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(class) = self.classes.store().get(key) else { return Ok(Next::Settled) };
        match need(&*class) {
            Need::Protect => {
                let why = "claims may refer to it";
                finalizer::write(&self.cx, &finalizer::protected(&*class), why).await?;
            }
            Need::Verdict if !self.is_used(&key.name) => {
                finalizer::write(&self.cx, &finalizer::released(&*class), "nothing refers to it").await?;
            }
            Need::Verdict | Need::Nothing => {}
        }
        Ok(Next::Settled)
    }
}

impl Controller {
    fn is_used(&self, class: &str) -> bool {
        self.volumes.store().count_by(&VOLUMES, class) > 0 || self.claims.store().count_by(&CLAIMS, class) > 0
    }
}
