//! The shell: observe, plan, execute. Discovery and schemas are live reads, as they are too large to be cached, and rarely needed
//! twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::{Key, ValidatingAdmissionPolicy};
use flyball_cache::Informer;
use flyball_runtime::{Chain, Context, Next, Reconcile, SyncError};
use serde::Deserialize;

use super::plan::{View, is_due, plan};
use super::policy::Spec;
use super::types::{INDEX, Need, Sources, need, types, usable};

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) policies: Arc<Informer<ValidatingAdmissionPolicy>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(policy) = self.policies.store().get(key) else { return Ok(Next::Settled) };
        if !is_due(&policy) {
            return Ok(Next::Settled);
        }
        let spec: Spec = serde_json::from_str(policy.spec.as_str()).map_err(|error| {
            SyncError::other(format!("reading the spec of ValidatingAdmissionPolicy {key}"), error).never()
        })?;
        let mut sources = Sources { spec: &spec, served: None, published: None, documents: BTreeMap::new() };
        while let Some(need) = need(&sources) {
            self.read(&mut sources, need, key).await?;
        }
        let types = types(&sources);
        drop(sources);
        for (kind, error) in &types.unusable {
            tracing::warn!(%kind, %error, "schema cannot be used");
        }
        let plan = plan(&View { policy: &policy, spec: &spec, kinds: &types.kinds, params: &types.params });
        self.cx.executor(key).execute(plan).await
    }
}

impl Controller {
    async fn read(&self, sources: &mut Sources<'_>, need: Need, key: &Key) -> Result<(), SyncError> {
        match need {
            Need::Discovery => {
                let doing = format!("reading discovery for ValidatingAdmissionPolicy {key}");
                sources.served = Some(self.cx.client.discover().await.map_err(SyncError::api(doing))?);
            }
            Need::Index => sources.published = Some(self.fetch(INDEX, key).await?.unwrap_or_default()),
            Need::Document { place, url } => {
                let document = self.fetch(&url, key).await?;
                sources.documents.insert(place, document);
            }
        }
        Ok(())
    }

    /// `None` if what is there cannot be used.
    async fn fetch<T: for<'de> Deserialize<'de>>(
        &self,
        path: &str,
        key: &Key,
    ) -> Result<Option<T>, SyncError> {
        let answer = self.cx.client.get_raw(path).await.map(|reply| reply.body);
        let doing = || format!("reading the schemas for ValidatingAdmissionPolicy {key}");
        match usable(path, answer).map_err(|error| SyncError::api(doing())(error))? {
            Ok(found) => Ok(Some(found)),
            Err(error) => {
                tracing::warn!(path, error = %Chain(&error), "schemas cannot be read");
                Ok(None)
            }
        }
    }
}
