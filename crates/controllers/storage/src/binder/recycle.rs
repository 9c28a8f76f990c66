//! Empties a released volume by a pod, and makes it available again.

use std::sync::Arc;

use flyball_api::pod::{Phase, Pod};
use flyball_api::{Key, Object, PersistentVolume};
use flyball_runtime::events::ObjectRef;
use flyball_runtime::{Chain, SyncError, exactly};
use serde_json::Value;

use super::claim::Tell;
use super::relay;
use super::sync::Binder;
use super::triggers::claim_of;
use crate::usage::pods_of;

const FAILED: &str = "VolumeFailedRecycle";

/// How the pod that empties a volume fares.
enum Progress {
    None,
    Working,
    Done(Arc<Pod>),
    /// It has failed, or is not ours.
    Failed {
        pod: Option<Arc<Pod>>,
        why: String,
    },
}

impl Binder {
    /// Takes the next step in emptying a volume.
    pub(super) async fn recycle(&self, key: &Key, volume: Arc<PersistentVolume>) -> Result<(), SyncError> {
        let Some(live) = self.reclaimable(key).await? else { return Ok(()) };
        if let Some(message) = self.users(&live) {
            self.tell(&ObjectRef::of(&*volume), Tell::normal(FAILED, message));
            return Ok(());
        }
        let Some(pod) = self.recycler.pod(&live) else {
            return self.fail(key, Arc::new(live), FAILED, "No recycler plugin found for the volume!").await;
        };
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
        let name = Key::new(text("namespace"), text("name"));
        match self.progress(key, &name) {
            Progress::Working => Ok(()),
            Progress::None => self.begin(key, live, &name, &pod).await,
            Progress::Failed { pod, why } => {
                // The failure is told before its only trace, the pod, goes.
                self.fail(key, Arc::new(live), FAILED, format!("Recycle failed: {why}")).await?;
                if let Some(pod) = pod {
                    self.dismiss(key, &pod).await?;
                }
                self.recycler.forget(key);
                Ok(())
            }
            Progress::Done(pod) => {
                self.dismiss(key, &pod).await?;
                self.tell(&ObjectRef::of(&live), Tell::normal("VolumeRecycled", "Volume recycled"));
                self.free(key, &live).await?;
                self.recycler.forget(key);
                Ok(())
            }
        }
    }

    /// The pods that still use a volume, as a sentence. A claim that took the name of the volume's has another volume.
    fn users(&self, volume: &PersistentVolume) -> Option<String> {
        let claim = claim_of(volume).filter(|claim| self.claims.get(claim).is_none())?;
        let pods = pods_of(self.pods.store(), &claim);
        let mut names: Vec<String> =
            pods.iter().filter(|pod| !pod.has_stopped()).map(|pod| pod.key().to_string()).collect();
        names.sort_unstable();
        (!names.is_empty()).then(|| format!("Volume is used by pods: {}", names.join(",")))
    }

    fn progress(&self, volume: &Key, pod: &Key) -> Progress {
        const FAILED: &str = "failed to recycle volume";
        let ours = self.recycler.running(volume);
        match (self.pods.store().get(pod), ours) {
            (None, None) => Progress::None,
            (None, Some(_)) => {
                Progress::Failed { pod: None, why: format!("{FAILED}: recycler pod was deleted") }
            }
            (Some(pod), Some(ours)) if *pod.uid() == ours => match pod.status.phase {
                Phase::Succeeded => Progress::Done(pod),
                Phase::Failed => {
                    let message = pod.status.rare().message.as_str();
                    let unknown = "pod failed, pod.Status.Message unknown";
                    let why = if message.is_empty() { unknown } else { message };
                    Progress::Failed { why: format!("{FAILED}: {why}"), pod: Some(pod) }
                }
                _ => Progress::Working,
            },
            (Some(pod), _) => {
                Progress::Failed { pod: Some(pod), why: "old recycler pod found, will retry later".into() }
            }
        }
    }

    async fn begin(
        &self,
        key: &Key,
        volume: PersistentVolume,
        name: &Key,
        pod: &Value,
    ) -> Result<(), SyncError> {
        let why = "a released volume is to be emptied";
        match self.cx.writer(key).create::<Pod>(&name.namespace, pod, why).await {
            Ok(pod) => {
                let (client, events) = (self.cx.client.clone(), self.events.clone());
                let listening = relay::listen(client, events, ObjectRef::of(&volume), pod.key());
                self.recycler.begun(key, pod.metadata.uid, listening);
                Ok(())
            }
            // Only a pod that the cache has yet to show can be in the way.
            Err(error) if error.is_already_exists() => {
                Err(SyncError::api(format!("creating recycler pod {name}"))(error).expected())
            }
            Err(error) => {
                let why =
                    format!("Recycle failed: unexpected error creating recycler pod:  {}", Chain(&error));
                self.fail(key, Arc::new(volume), FAILED, why).await
            }
        }
    }

    async fn dismiss(&self, key: &Key, pod: &Pod) -> Result<(), SyncError> {
        if pod.is_deleting() {
            return Ok(());
        }
        let name = pod.key();
        let why = "its work is done, or not to be trusted";
        match self.cx.writer(key).delete::<Pod>(&name, exactly(&pod.metadata), why).await {
            Err(error) if !error.is_not_found() => {
                Err(SyncError::api(format!("deleting recycler pod {name}"))(error))
            }
            _ => Ok(()),
        }
    }
}
