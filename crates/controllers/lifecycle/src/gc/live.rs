//! The real API server: reads under the identity of the garbage collector, writes by the executor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flyball_api::{Key, ObjectMeta, PartialObject, ResourceType};
use flyball_client::{Accept, Error, Request, Verb};
use flyball_runtime::events::ObjectRef;
use flyball_runtime::{Context, Event, Outcome, Plan};
use parking_lot::RwLock;

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

    /// The resources that the server serves; kept up to date by the monitors.
    pub(super) fn catalog(&self) -> Arc<RwLock<Catalog>> {
        self.catalog.clone()
    }

    /// Whether all resources that are served are watched; kept up to date by the monitors.
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
        // Only from an informer that runs already: this must not start one.
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

    async fn perform(&self, owner: &Key, plan: Plan) -> Outcome {
        // Not for the tries within one examination, which read the server: if a restore of etcd undoes the write before the cache
        // has shown it, the barrier makes sure that the object is examined again.
        let executor = self.cx.executor(owner);
        executor.record_waiting(plan.waiting);
        executor.perform(plan.effects).await
    }

    fn record(&self, about: &ObjectRef, event: Event) {
        event.record(&self.cx.events, about);
    }
}
