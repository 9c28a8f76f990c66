//! The shell: look up, list pods if the plan needs it, plan, execute.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Key, PersistentVolumeClaim, ResourceVersion};
use flyball_cache::Informer;
use flyball_client::ListParams;
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use parking_lot::Mutex;
use smol_str::SmolStr;

use super::plan::{View, keeps, needs_list, plan};
use crate::usage::{Uses, pods_of};

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) claims: Arc<Informer<PersistentVolumeClaim>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) reports_unused: bool,
    pub(super) listed: Mutex<Option<Listed>>,
}

/// The claims that the pods of a namespace used when they were last listed from the server.
pub(super) struct Listed {
    namespace: SmolStr,
    version: ResourceVersion,
    uses: Uses,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(claim) = self.claims.store().get(key) else { return Ok(Next::Settled) };
        let mut view = View {
            claim: &claim,
            pods: &pods_of(self.pods.store(), key),
            is_kept: None,
            reports_unused: self.reports_unused,
            now: self.cx.clock.now(),
        };
        if needs_list(&view) {
            view.is_kept = Some(!self.was_free(&claim) && self.is_kept(&claim).await?);
        }
        self.cx.executor(key).execute(plan(&view)).await
    }
}

impl Controller {
    /// Whether a pod on the server keeps a claim.
    async fn is_kept(&self, claim: &PersistentVolumeClaim) -> Result<bool, SyncError> {
        let namespace = &claim.metadata.namespace;
        let listed = self.cx.client.list::<Pod>(Some(namespace), &ListParams::default()).await;
        let listed = listed.map_err(SyncError::api(format!("listing the pods of namespace {namespace}")))?;
        let uses = Uses::of(&listed.items, keeps);
        let is_kept = uses.contains(claim);
        let (namespace, version) = (namespace.clone(), listed.resource_version);
        *self.listed.lock() = Some(Listed { namespace, version, uses });
        Ok(is_kept)
    }

    /// Whether no pod of the last list keeps a claim. The list must not be older than the claim's deletion: a pod that is
    /// assigned to a node later is not started.
    fn was_free(&self, claim: &PersistentVolumeClaim) -> bool {
        let listed = self.listed.lock();
        listed.as_ref().is_some_and(|listed| {
            listed.namespace == claim.metadata.namespace
                && listed.version >= claim.metadata.resource_version
                && !listed.uses.contains(claim)
        })
    }
}
