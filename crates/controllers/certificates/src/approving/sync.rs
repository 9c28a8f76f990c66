//! The shell: find the right that would do, ask whether it is there, approve.

use std::sync::Arc;

use flyball_api::{CertificateSigningRequest, Key, PartialObject, Resource, ResourceType, manifest};
use flyball_cache::Informer;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::plan::{Right, approved, question, rights};

const ACCESS_REVIEWS: ResourceType =
    ResourceType::new("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", false);

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) requests: Arc<Informer<CertificateSigningRequest>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(csr) = self.requests.store().get(key) else { return Ok(Next::Settled) };
        let unreadable =
            |error| SyncError::other(format!("reading certificate request {key}"), error).never();
        let tried = rights(&csr).map_err(unreadable)?;
        for right in tried {
            if self.has(&csr, *right).await? {
                return self.approve(key, &csr, *right).await;
            }
        }
        if tried.is_empty() {
            return Ok(Next::Settled);
        }
        let names: Vec<&str> = tried.iter().map(|right| right.subresource()).collect();
        let refused = format!("{} may create none of {}", csr.spec.username, names.join(", "));
        Err(SyncError::other(format!("approving certificate request {key}"), refused).expected())
    }
}

impl Controller {
    async fn has(&self, csr: &CertificateSigningRequest, right: Right) -> Result<bool, SyncError> {
        let review = self.cx.client.create_dynamic(&ACCESS_REVIEWS, None, &question(csr, right)).await;
        let doing = || format!("asking what {} may", csr.spec.username);
        let review = review.map_err(|error| SyncError::api(doing())(error))?;
        Ok(review["status"]["allowed"].as_bool().unwrap_or(false))
    }

    async fn approve(
        &self,
        key: &Key,
        csr: &CertificateSigningRequest,
        right: Right,
    ) -> Result<Next, SyncError> {
        let doing = || format!("approving certificate request {key}");
        let body = manifest(&approved(csr, right)).map_err(|error| SyncError::other(doing(), error))?;
        let why = format!("{} may create {}", csr.spec.username, right.subresource());
        let writer = self.cx.writer(key);
        let kind = CertificateSigningRequest::TYPE;
        let written = writer.update_dynamic::<PartialObject>(&kind, key, Some("approval"), &body, why).await;
        match written {
            Err(error) if error.is_not_found() => Ok(Next::Settled),
            written => written.map(|_| Next::Settled).map_err(|error| SyncError::api(doing())(error)),
        }
    }
}
