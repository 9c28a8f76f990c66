//! The shell: look up, ask the cache, then the server, and write.

use std::sync::Arc;

use flyball_api::persistent_volume_claim::PersistentVolumeClaimStatus;
use flyball_api::pod::Pod;
use flyball_api::{Key, Object, PersistentVolumeClaim, ResourceVersion, manifest_with_status};
use flyball_cache::Informer;
use flyball_client::ListParams;
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use parking_lot::Mutex;
use smol_str::SmolStr;

use super::plan::{conditions, keeps, refers};
use crate::finalizer::{self, Need, need};
use crate::usage::{Uses, pods_of};

/// The controller.
pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) claims: Arc<Informer<PersistentVolumeClaim>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) tells_unused: bool,
    pub(super) listed: Mutex<Option<Listed>>,
}

/// What the server said last about the pods of a namespace.
pub(super) struct Listed {
    namespace: SmolStr,
    version: ResourceVersion,
    uses: Uses,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(claim) = self.claims.store().get(key) else { return Ok(Next::Settled) };
        if self.tells_unused && !claim.is_deleting() && self.tell(&claim).await? {
            // The write brings the claim back if its finalizer is missing, too.
            return Ok(Next::Settled);
        }
        match need(&*claim) {
            Need::Nothing => {}
            Need::Protect => {
                let why = "pods may come to use it";
                finalizer::write(&self.cx, &finalizer::protected(&*claim), why).await?;
            }
            Need::Verdict if self.is_kept(&claim).await? => {
                tracing::debug!(%key, "a pod on a node uses the claim; it stays");
            }
            Need::Verdict => {
                finalizer::write(&self.cx, &finalizer::released(&*claim), "no pod uses it").await?;
            }
        }
        Ok(Next::Settled)
    }
}

impl Controller {
    /// Whether a pod keeps a claim that is to go. The cache may lack a pod, so its no is not enough.
    async fn is_kept(&self, claim: &PersistentVolumeClaim) -> Result<bool, SyncError> {
        let known = pods_of(self.pods.store(), &claim.key());
        if Uses::of(known.iter().map(|pod| &**pod), keeps).contains(claim) {
            return Ok(true);
        }
        if self.was_free(claim) {
            return Ok(false);
        }
        let namespace = &claim.metadata.namespace;
        let listed = self.cx.client.list::<Pod>(Some(namespace), &ListParams::default()).await;
        let listed = listed.map_err(SyncError::api(format!("listing the pods of namespace {namespace}")))?;
        let uses = Uses::of(&listed.items, keeps);
        let is_kept = uses.contains(claim);
        let (namespace, version) = (namespace.clone(), listed.resource_version);
        *self.listed.lock() = Some(Listed { namespace, version, uses });
        Ok(is_kept)
    }

    /// Whether the last list already showed that nobody uses a claim. It must not be older than the claim's deletion:
    /// a pod that came to a node after that is not started.
    fn was_free(&self, claim: &PersistentVolumeClaim) -> bool {
        let listed = self.listed.lock();
        listed.as_ref().is_some_and(|listed| {
            listed.namespace == claim.metadata.namespace
                && listed.version >= claim.metadata.resource_version
                && !listed.uses.contains(claim)
        })
    }

    /// Lets a claim say whether a pod refers to it; says whether that was news.
    async fn tell(&self, claim: &PersistentVolumeClaim) -> Result<bool, SyncError> {
        let key = claim.key();
        let known = pods_of(self.pods.store(), &key);
        let is_used = Uses::of(known.iter().map(|pod| &**pod), refers).contains(claim);
        let Some(conditions) = conditions(claim, is_used, self.cx.clock.now()) else { return Ok(false) };
        let status = PersistentVolumeClaimStatus { conditions, ..claim.status.clone() };
        let body = manifest_with_status(claim, &status);
        let why = if is_used { "a pod refers to it" } else { "no pod refers to it" };
        let told = self.cx.writer(&key).update_status::<PersistentVolumeClaim>(&key, &body, why).await;
        match told {
            Err(error) if error.is_not_found() => Ok(true),
            told => told.map(|_| true).map_err(SyncError::api(format!("writing the status of claim {key}"))),
        }
    }
}
