//! The collector's server: reads under its own identity, writes through the executor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flyball_api::{ObjectMeta, PartialObject, ResourceType};
use flyball_client::{Accept, DeleteOptions, Error, Patch, Request, Verb};
use flyball_runtime::Context;
use flyball_runtime::events::ObjectRef;
use parking_lot::RwLock;
use smol_str::SmolStr;

use super::catalog::Catalog;
use super::identity::Identity;
use super::server::Server;

pub(super) struct Live {
    cx: Arc<Context>,
    catalog: Arc<RwLock<Catalog>>,
    followed: Arc<AtomicBool>,
}

impl Live {
    pub(super) fn new(cx: Arc<Context>) -> Self {
        Self { cx, catalog: Arc::default(), followed: Arc::default() }
    }

    /// What is known of the server's resources; kept up to date by the monitors.
    pub(super) fn catalog(&self) -> Arc<RwLock<Catalog>> {
        self.catalog.clone()
    }

    /// Whether all that is served is followed; kept up to date by the monitors.
    pub(super) fn followed(&self) -> Arc<AtomicBool> {
        self.followed.clone()
    }
}

impl Server for Live {
    fn resource(&self, api_version: &str, kind: &str) -> Option<ResourceType> {
        self.catalog.read().resource(api_version, kind).cloned()
    }

    fn is_followed(&self) -> bool {
        self.followed.load(Ordering::Acquire)
    }

    fn era(&self) -> u64 {
        self.cx.informers.era()
    }

    fn cached(&self, resource: &ResourceType, object: &Identity) -> Option<ObjectMeta> {
        // Only from an informer that runs already: looking must not start one.
        self.cx.informers.progress(resource)?;
        let mut found = None;
        self.cx.informers.observe(resource).look_at(&object.key(), &mut |meta| {
            if meta.uid == object.uid {
                found = Some(meta.clone());
            }
        });
        found
    }

    async fn read(&self, resource: &ResourceType, object: &Identity) -> Result<ObjectMeta, Error> {
        let request = Request::object(Verb::Get, resource, &object.key(), None).accept(Accept::Metadata);
        let object: PartialObject = self.cx.client.send(request).await?;
        Ok(object.metadata)
    }

    async fn delete(
        &self,
        resource: &ResourceType,
        object: &Identity,
        options: DeleteOptions,
        why: &str,
    ) -> Result<(), Error> {
        let key = object.key();
        self.cx.writer(&key).unawaited().delete_dynamic(resource, &key, options, why).await
    }

    async fn patch(
        &self,
        resource: &ResourceType,
        object: &Identity,
        patch: Patch,
        why: &str,
    ) -> Result<(), Error> {
        let key = object.key();
        let writer = self.cx.writer(&key).unawaited();
        writer.patch_dynamic::<PartialObject>(resource, &key, None, patch, why).await.map(drop)
    }

    fn tell_misplaced(&self, dependent: &Identity, owner: &Identity) {
        let about = ObjectRef {
            kind: dependent.kind.clone(),
            namespace: dependent.namespace.clone(),
            name: dependent.name.clone(),
            uid: dependent.uid.to_smol_str(),
            api_version: dependent.api_version.clone(),
            resource_version: SmolStr::default(),
        };
        let message = format!("ownerRef {owner} does not exist in namespace {:?}", dependent.namespace);
        self.cx.events.warning(&about, "OwnerRefInvalidNamespace", message);
    }
}
