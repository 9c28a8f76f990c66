//! The shell: look up, plan, execute.

use std::sync::Arc;

use flyball_api::{Key, PersistentVolume, PersistentVolumeClaim, VolumeAttributesClass};
use flyball_cache::Informer;
use flyball_runtime::{Context, Next, Plan, Reconcile, SyncError};

use super::{CLAIMS, VOLUMES};
use crate::finalizer::{self, Reasons};

const REASONS: Reasons = Reasons { protect: "claims may refer to it", release: "nothing refers to it" };

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) classes: Arc<Informer<VolumeAttributesClass>>,
    pub(super) claims: Arc<Informer<PersistentVolumeClaim>>,
    pub(super) volumes: Arc<Informer<PersistentVolume>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(class) = self.classes.store().get(key) else { return Ok(Next::Settled) };
        let plan = Plan::of(finalizer::plan(&*class, || self.is_used(&key.name), REASONS));
        self.cx.executor(key).execute::<()>(plan).await
    }
}

impl Controller {
    fn is_used(&self, class: &str) -> bool {
        self.volumes.store().count_by(&VOLUMES, class) > 0 || self.claims.store().count_by(&CLAIMS, class) > 0
    }
}
