//! The shell: look up, plan, execute.

use std::sync::Arc;

use flyball_api::{Key, PersistentVolume, PersistentVolumeClaim, VolumeAttributesClass};
use flyball_cache::Informer;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::plan::{View, plan};
use super::{CLAIMS, VOLUMES};

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) classes: Arc<Informer<VolumeAttributesClass>>,
    pub(super) claims: Arc<Informer<PersistentVolumeClaim>>,
    pub(super) volumes: Arc<Informer<PersistentVolume>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(class) = self.classes.store().get(key) else { return Ok(Next::Settled) };
        let (volumes, claims) = (self.volumes.store(), self.claims.store());
        let users = volumes.count_by(&VOLUMES, &key.name) + claims.count_by(&CLAIMS, &key.name);
        self.cx.executor(key).execute(plan(&View { class: &class, users })).await
    }
}
