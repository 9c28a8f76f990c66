//! The shell: look up, plan, execute.

use std::sync::Arc;

use flyball_api::{Key, PersistentVolume, PersistentVolumeClaim};
use flyball_cache::Informer;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::gates::Gate;
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use tokio::time::Instant;

use super::plan::{View, operation, plan};
use crate::binder::observe;

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) claims: Arc<Informer<PersistentVolumeClaim>>,
    pub(super) volumes: Arc<Informer<PersistentVolume>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(claim) = self.claims.store().get(key) else { return Ok(Next::Settled) };
        let volume = self.volumes.store().get(&Key::cluster(claim.spec.volume_name.as_str()));
        let recovers = self.cx.gates.enabled(Gate::RecoverVolumeExpansionFailure);
        let view = View { claim: &claim, volume: volume.as_deref(), recovers, now: self.cx.clock.now() };
        let executor = self.cx.executor(key).about(ObjectRef::of(&*claim)).events(&self.events);
        let Some(driver) = operation(&view) else { return executor.execute(plan(&view)).await };
        let began = Instant::now();
        let done = executor.execute(plan(&view)).await;
        observe(&self.cx.metrics, &driver, "expand_volume", began.elapsed(), done.is_ok());
        done
    }
}
