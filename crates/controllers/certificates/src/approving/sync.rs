//! The shell: check the requester's rights, plan, execute. The reviews are live reads: the API server alone decides them.

use std::sync::Arc;

use flyball_api::{CertificateSigningRequest, Key, ResourceType};
use flyball_cache::Informer;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::plan::{Right, View, plan, review, rights};

const ACCESS_REVIEWS: ResourceType =
    ResourceType::new("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", false);

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) requests: Arc<Informer<CertificateSigningRequest>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(csr) = self.requests.store().get(key) else { return Ok(Next::Settled) };
        let granted = self.granted(&csr).await?;
        self.cx.executor(key).execute(plan(&View { csr: &csr, granted })).await
    }
}

impl Controller {
    /// The first right that the requester has.
    async fn granted(&self, csr: &CertificateSigningRequest) -> Result<Option<Right>, SyncError> {
        for right in rights(csr).unwrap_or_default() {
            let review = self.cx.client.create_dynamic(&ACCESS_REVIEWS, None, &review(csr, *right)).await;
            let doing = || format!("reviewing the access of {}", csr.spec.username);
            let review = review.map_err(|error| SyncError::api(doing())(error))?;
            if review["status"]["allowed"].as_bool().unwrap_or(false) {
                return Ok(Some(*right));
            }
        }
        Ok(None)
    }
}
