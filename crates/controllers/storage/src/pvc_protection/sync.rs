//! The shell: look up, list pods from the server if the plan needs it, plan, execute.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Key, PersistentVolumeClaim};
use flyball_cache::{Informer, Progress as _};
use flyball_client::ListParams;
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use parking_lot::Mutex;

use super::invariants;
use super::plan::{Listed, View, keeps, needs_list, plan};
use crate::usage::{Uses, pods_of};

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) claims: Arc<Informer<PersistentVolumeClaim>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) reports_unused: bool,
    pub(super) listed: Mutex<Option<Listed>>,
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
            view.is_kept = Some(!self.is_known_unused(&claim) && self.is_kept(&claim).await?);
        }
        let plan = plan(&view);
        self.cx.judge(|| invariants::check(&view, &plan));
        self.cx.executor(key).execute(plan).await
    }
}

impl Controller {
    /// Lists the pods of the namespace from the server. Whether one of them uses the claim.
    async fn is_kept(&self, claim: &PersistentVolumeClaim) -> Result<bool, SyncError> {
        let (namespace, era) = (&claim.metadata.namespace, self.pods.era());
        let claims_reached = self.claims.version_reached();
        let listed = self.cx.client.list::<Pod>(Some(namespace), &ListParams::default()).await;
        let listed = listed.map_err(SyncError::api(format!("listing the pods of namespace {namespace}")))?;
        let uses = Uses::of(&listed.items, keeps);
        let is_kept = uses.contains(claim);
        *self.listed.lock() = Some(Listed { namespace: namespace.clone(), era, claims_reached, uses });
        Ok(is_kept)
    }

    /// Whether the last list shows that no pod uses the claim, so that another list is not needed.
    fn is_known_unused(&self, claim: &PersistentVolumeClaim) -> bool {
        self.listed.lock().as_ref().is_some_and(|listed| listed.shows_unused(claim, self.pods.era()))
    }
}
