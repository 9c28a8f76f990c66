//! The shell: observe, plan, execute. Discovery and schemas are live reads, as they are too large to be cached.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::{Key, ValidatingAdmissionPolicy};
use flyball_cache::Informer;
use flyball_client::{Discovery, Error};
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use serde::Deserialize;
use smol_str::SmolStr;

use super::kinds::{Kind, kinds, names_any};
use super::plan::{View, is_due, plan};
use super::policy::Spec;
use super::schema::Document;
use super::variables::{ObjectType, Params};

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
        let mut schemas = Schemas { cx: &self.cx, published: None, documents: BTreeMap::new() };
        let mut checked = vec![];
        for kind in kinds(&spec, &self.served(&spec, key).await?) {
            if let Some(of) = schemas.object_type(&kind, Role::Object).await.map_err(unread(key))? {
                checked.push((kind, of));
            }
        }
        let params = match spec.param_kind.as_ref().and_then(|kind| kind.kind()) {
            None => Params::None,
            Some(kind) => {
                let found = schemas.object_type(&kind, Role::Params).await.map_err(unread(key))?;
                found.map_or(Params::Unknown, Params::Known)
            }
        };
        drop(schemas);
        let plan = plan(&View { policy: &policy, spec: &spec, kinds: &checked, params: &params });
        self.cx.executor(key).execute(plan).await
    }
}

impl Controller {
    /// The resources that the server serves, if the policy names any.
    async fn served(&self, spec: &Spec, key: &Key) -> Result<Discovery, SyncError> {
        if !names_any(spec) {
            return Ok(Discovery::default());
        }
        let asked = self.cx.client.discover().await;
        asked.map_err(SyncError::api(format!("reading discovery for ValidatingAdmissionPolicy {key}")))
    }
}

/// The schemas that one policy needs. They are large and rarely needed twice, so they are not kept.
struct Schemas<'a> {
    cx: &'a Context,
    published: Option<Published>,
    documents: BTreeMap<String, Option<Document>>,
}

/// The paths of published schemas.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Published {
    paths: BTreeMap<SmolStr, Place>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Place {
    #[serde(rename = "serverRelativeURL")]
    server_relative_url: String,
}

impl Schemas<'_> {
    /// The type of objects of a kind; `None` if the server has no schema for it, so that it is not checked. An error that may
    /// pass is returned, so that the policy is checked later: upstream ignores the kind, and does not retry.
    async fn object_type(&mut self, kind: &Kind, role: Role) -> Result<Option<ObjectType>, Error> {
        let place = kind.document();
        if !self.documents.contains_key(&place) {
            let document = match self.fetch(&place).await {
                Err(error) if is_transient(&error) => return Err(error),
                Err(error) => {
                    tracing::warn!(%kind, error = &error as &dyn std::error::Error, "schema cannot be read");
                    None
                }
                Ok(document) => document,
            };
            self.documents.insert(place.clone(), document);
        }
        let Some(Some(document)) = self.documents.get(&place) else { return Ok(None) };
        let name = format!("{}{}", kind.kind, number_of(kind, role));
        match document.object_type(kind, &name) {
            Ok(found) => Ok(found.map(|(of, objects)| ObjectType { of, objects: Arc::new(objects) })),
            Err(error) => {
                tracing::warn!(%kind, %error, "schema cannot be used");
                Ok(None)
            }
        }
    }

    async fn fetch(&mut self, place: &str) -> Result<Option<Document>, Error> {
        if self.published.is_none() {
            self.published = Some(self.read("/openapi/v3").await?);
        }
        let published = self.published.as_ref().and_then(|published| published.paths.get(place));
        match published {
            Some(at) => self.read(&at.server_relative_url).await.map(Some),
            None => Ok(None),
        }
    }

    async fn read<T: for<'de> Deserialize<'de>>(&self, path: &str) -> Result<T, Error> {
        let reply = self.cx.client.get_raw(path).await?;
        serde_json::from_slice(&reply.body).map_err(|source| Error::Decode { what: path.into(), source })
    }
}

/// Whether a retry can help: there was no answer, or the server could not give one.
pub(super) fn is_transient(error: &Error) -> bool {
    !matches!(error, Error::Decode { .. }) && error.code().is_none_or(|code| code == 429 || code >= 500)
}

fn unread(key: &Key) -> impl FnOnce(Error) -> SyncError {
    SyncError::api(format!("reading the schemas for ValidatingAdmissionPolicy {key}"))
}

#[derive(Debug, Clone, Copy)]
enum Role {
    Object,
    Params,
}

/// Makes the names of object types unique in an expression. Objects and parameters of one kind have different types, as
/// upstream.
fn number_of(kind: &Kind, role: Role) -> u32 {
    flyball_api::hash::fnv32a(format!("{kind} {role:?}").as_bytes()) % 1_000_000_000
}
