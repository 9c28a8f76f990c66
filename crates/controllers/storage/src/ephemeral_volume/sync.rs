//! The shell: look up, plan volume by volume, create or tell.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Key, Object, PersistentVolumeClaim};
use flyball_cache::Informer;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::metrics::{Family, Stability};
use flyball_runtime::{Chain, Context, Next, Reconcile, SyncError};

use super::plan::{Action, claim_key, plan};

const HELP: &str = "Number of PersistentVolumeClaim creation requests";
pub(super) static CREATED: Family =
    Family::counter("ephemeral_volume_controller_create_total", Stability::Alpha, &[], HELP);
pub(super) static FAILED: Family =
    Family::counter("ephemeral_volume_controller_create_failures_total", Stability::Alpha, &[], HELP);

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) claims: Arc<Informer<PersistentVolumeClaim>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(pod) = self.pods.store().get(key).filter(|pod| !pod.is_deleting()) else {
            return Ok(Next::Settled);
        };
        for volume in &pod.spec.volumes {
            let claim = claim_key(&pod, volume).and_then(|key| self.claims.store().get(&key));
            let done = match plan(&pod, volume, claim.as_deref()) {
                None => Ok(()),
                Some(Action::Create(claim)) => self.create(key, &claim).await,
                Some(Action::Refuse(why)) => {
                    Err((why.clone(), SyncError::other(format!("claiming volume {}", volume.name), why)))
                }
            };
            if let Err((why, error)) = done {
                let message = format!("ephemeral volume {}: {why}", volume.name);
                self.events.warning(&ObjectRef::of(&*pod), "FailedBinding", message);
                return Err(error);
            }
        }
        Ok(Next::Settled)
    }
}

impl Controller {
    /// Makes a claim; a failure comes with the words for the pod.
    async fn create(&self, pod: &Key, claim: &serde_json::Value) -> Result<(), (String, SyncError)> {
        self.cx.metrics.counter(&CREATED, &[]).inc();
        let why = "an ephemeral volume of the pod needs it";
        let created = self.cx.writer(pod).create::<PersistentVolumeClaim>(&pod.namespace, claim, why).await;
        created.map(drop).map_err(|error| {
            self.cx.metrics.counter(&FAILED, &[]).inc();
            let name = claim["metadata"]["name"].as_str().unwrap_or_default();
            let told = format!("create PVC {name}: {}", Chain(&error));
            (told, SyncError::api(format!("creating claim {name}"))(error))
        })
    }
}
