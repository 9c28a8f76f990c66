//! What becomes of a released volume: it stays, goes, or is emptied.

use std::sync::Arc;

use flyball_api::{Key, Object, PersistentVolume};
use flyball_runtime::{SyncError, exactly};

use super::claim::Tell;
use super::plugins::{self, Remover};
use super::sync::Binder;
use super::triggers::claim_of;
use super::volume::{Policy, may_reclaim, policy};
use super::{host_path, metrics};
use crate::class;
use crate::finalizer::Kept;
use crate::migration;
use crate::names::{FAILED, IN_TREE_FINALIZER, MIGRATED_TO};

impl Binder {
    /// Does what the policy of a released volume says.
    pub(super) async fn reclaim(&self, key: &Key, volume: Arc<PersistentVolume>) -> Result<(), SyncError> {
        if volume.metadata.annotations.get(MIGRATED_TO).is_some_and(|driver| !driver.is_empty()) {
            return Ok(());
        }
        match policy(&volume) {
            Policy::Retain => Ok(()),
            Policy::Recycle => self.recycle(key, volume).await,
            Policy::Delete => {
                self.operations.begin(key, &self.remover_of(&volume), "delete");
                self.delete(key, volume).await
            }
            Policy::Unknown => {
                let message = "Volume has unrecognized PersistentVolumeReclaimPolicy";
                self.fail(key, volume, "VolumeUnknownReclaimPolicy", message).await
            }
        }
    }

    /// Marks a volume as failed, and tells why. It is tried again all the same.
    pub(super) async fn fail(
        &self,
        key: &Key,
        volume: Arc<PersistentVolume>,
        reason: &'static str,
        why: impl Into<String>,
    ) -> Result<(), SyncError> {
        self.put_phase_telling(key, volume, FAILED, Tell::warning(reason, why)).await
    }

    /// The volume as the server has it now, if it may be emptied or deleted.
    pub(super) async fn reclaimable(&self, key: &Key) -> Result<Option<PersistentVolume>, SyncError> {
        let live = match self.cx.client.get::<PersistentVolume>(key).await {
            Err(error) if error.is_not_found() => return Ok(None),
            live => live.map_err(SyncError::api(format!("reading volume {key}")))?,
        };
        let claim = claim_of(&live).and_then(|claim| self.claims.get(&claim));
        Ok(may_reclaim(&live, claim.as_deref()).then_some(live))
    }

    /// Deletes what is behind a volume, if that is ours to do, and then the volume.
    async fn delete(&self, key: &Key, volume: Arc<PersistentVolume>) -> Result<(), SyncError> {
        const REASON: &str = "VolumeFailedDelete";
        let path = match plugins::remover(&volume) {
            Err(why) => return self.fail(key, volume, REASON, why).await,
            Ok(Remover::External) => return Ok(()),
            Ok(Remover::HostPath(path)) => path,
        };
        let Some(live) = self.reclaimable(key).await? else { return Ok(()) };
        let removed = host_path::remove(&volume.metadata.name, path);
        let removed = metrics::timed(&self.cx.metrics, plugins::HOST_PATH, "volume_delete", removed).await;
        if let Err(why) = removed {
            self.operations.failed(key);
            return self.fail(key, Arc::new(live), REASON, why).await;
        }
        if live.metadata.has_finalizer(IN_TREE_FINALIZER) {
            let mut open = live.clone();
            let others = live.metadata.finalizers.iter().filter(|held| *held != IN_TREE_FINALIZER);
            open.metadata.finalizers = others.cloned().collect();
            self.put_volume(key, &open, "what was behind it is gone").await?;
        }
        // Upstream asks again whenever it looks; for one that others hold, once is enough.
        let was_asked = self.operations.asked(key);
        if live.is_deleting() && (was_asked || !is_held_by_us(&live)) {
            return Ok(());
        }
        let why = "what was behind it is gone";
        match self.cx.writer(key).delete::<PersistentVolume>(key, exactly(&live.metadata), why).await {
            Err(error) if !error.is_not_found() => {
                Err(SyncError::api(format!("deleting volume {key}"))(error))
            }
            _ => Ok(()),
        }
    }

    /// Who removes a volume, for metrics. Of those outside the class knows the name: drivers put arbitrary names on
    /// their volumes.
    fn remover_of(&self, volume: &PersistentVolume) -> String {
        match plugins::remover(volume) {
            Err(_) => plugins::UNKNOWN.to_owned(),
            Ok(Remover::HostPath(_)) => plugins::HOST_PATH.to_owned(),
            Ok(Remover::External) => {
                let class = self.classes.store().get(&Key::cluster(class::of_volume(volume)));
                class.map_or_else(
                    || plugins::UNKNOWN.to_owned(),
                    |class| migration::driver_of(&class.provisioner).unwrap_or(&class.provisioner).to_owned(),
                )
            }
        }
    }
}

/// Whether finalizers of ours are among those that keep a volume.
fn is_held_by_us(volume: &PersistentVolume) -> bool {
    [IN_TREE_FINALIZER, PersistentVolume::FINALIZER].iter().any(|ours| volume.metadata.has_finalizer(ours))
}
