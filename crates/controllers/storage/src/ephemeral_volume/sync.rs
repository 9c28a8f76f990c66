//! The shell: look up, plan, execute, count.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Key, PersistentVolumeClaim};
use flyball_cache::Informer;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::metrics::{Family, Stability};
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::plan::{View, claim_key, plan};

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
        let Some(pod) = self.pods.store().get(key) else { return Ok(Next::Settled) };
        let keys = pod.spec.volumes.iter().filter_map(|volume| claim_key(&pod, volume));
        let claims: Vec<_> = keys.filter_map(|key| self.claims.store().get(&key)).collect();
        let plan = plan(&View { pod: &pod, claims: &claims });
        let executor = self.cx.executor(key).about(ObjectRef::of(&*pod)).events(&self.events);
        let done = executor.run(plan).await;
        let outcome = &done.outcome;
        let failed = outcome.failures.iter().filter(|failure| failure.tag.is_some()).count();
        let (created, failures) =
            (self.cx.metrics.counter(&CREATED, &[]), self.cx.metrics.counter(&FAILED, &[]));
        (0..outcome.done.len() + failed).for_each(|_| created.inc());
        (0..failed).for_each(|_| failures.inc());
        done.result()
    }
}
