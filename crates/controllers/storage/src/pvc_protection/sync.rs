//! The shell: look up, ask the cache, then the server, plan, execute.

use std::sync::Arc;

use flyball_api::persistent_volume_claim::PersistentVolumeClaimStatus;
use flyball_api::pod::Pod;
use flyball_api::{Key, Object, PersistentVolumeClaim, ResourceVersion};
use flyball_cache::{Informer, Progress as _};
use flyball_client::ListParams;
use flyball_runtime::{Context, Next, Plan, Reconcile, SyncError, Waiting, Write};
use parking_lot::Mutex;
use smol_str::SmolStr;

use super::plan::{conditions, keeps, refers};
use crate::finalizer::{self, Need, Reasons, need};
use crate::usage::{Uses, pods_of};

const REASONS: Reasons = Reasons { protect: "pods may come to use it", release: "no pod uses it" };

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) claims: Arc<Informer<PersistentVolumeClaim>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) tells_unused: bool,
    pub(super) listed: Mutex<Option<Listed>>,
}

/// What the server said last about the pods of a namespace.
pub(super) struct Listed {
    pub(super) namespace: SmolStr,
    /// Versions of different eras cannot be compared.
    pub(super) era: u64,
    pub(super) version: ResourceVersion,
    pub(super) uses: Uses,
}

impl Listed {
    /// Whether the list shows that no pod uses a claim. It must not be older than the claim's deletion: a pod that came
    /// to a node after that is not started.
    pub(super) fn shows_free(&self, claim: &PersistentVolumeClaim, era: u64) -> bool {
        self.namespace == claim.metadata.namespace
            && self.era == era
            && self.version >= claim.metadata.resource_version
            && !self.uses.contains(claim)
    }
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(claim) = self.claims.store().get(key) else { return Ok(Next::Settled) };
        let executor = self.cx.executor(key);
        if let Some(status) = self.status(&claim) {
            // The write brings the claim back if its finalizer is missing, too.
            return executor.execute::<()>(Plan::default().with_status(status)).await;
        }
        let is_used = need(&*claim) == Need::Verdict && self.is_kept(&claim).await?;
        let waiting =
            is_used.then(|| Waiting::on::<PersistentVolumeClaim>(key, "to be used by no pod on a node"));
        let plan = Plan::of(finalizer::plan(&*claim, || is_used, REASONS)).waiting_for(waiting);
        executor.execute::<()>(plan).await
    }
}

impl Controller {
    /// Whether a pod keeps a claim that is to go. The cache may lack a pod, so its no is not enough.
    async fn is_kept(&self, claim: &PersistentVolumeClaim) -> Result<bool, SyncError> {
        let known = pods_of(self.pods.store(), &claim.key());
        if Uses::of(known.iter().map(|pod| &**pod), keeps).contains(claim) {
            return Ok(true);
        }
        let (namespace, era) = (&claim.metadata.namespace, self.pods.era());
        if self.listed.lock().as_ref().is_some_and(|listed| listed.shows_free(claim, era)) {
            return Ok(false);
        }
        let listed = self.cx.client.list::<Pod>(Some(namespace), &ListParams::default()).await;
        let listed = listed.map_err(SyncError::api(format!("listing the pods of namespace {namespace}")))?;
        let uses = Uses::of(&listed.items, keeps);
        let is_kept = uses.contains(claim);
        let (namespace, version) = (namespace.clone(), listed.resource_version);
        *self.listed.lock() = Some(Listed { namespace, era, version, uses });
        Ok(is_kept)
    }

    /// The status by which a claim says whether a pod refers to it, if that is news.
    fn status(&self, claim: &PersistentVolumeClaim) -> Option<Write> {
        if !self.tells_unused || claim.is_deleting() {
            return None;
        }
        let known = pods_of(self.pods.store(), &claim.key());
        let is_used = Uses::of(known.iter().map(|pod| &**pod), refers).contains(claim);
        let conditions = conditions(claim, is_used, self.cx.clock.now())?;
        let status = PersistentVolumeClaimStatus { conditions, ..claim.status.clone() };
        let why = if is_used { "a pod refers to it" } else { "no pod refers to it" };
        Some(Write::status(claim, &status).why(why))
    }
}
