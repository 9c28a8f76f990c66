//! The real API server: reads under the identity of the garbage collector, writes by the executor.

use std::sync::Arc;

use flyball_api::{Key, ObjectMeta, PartialObject, ResourceType};
use flyball_client::{Accept, Error, Request, Verb};
use flyball_common::discovery::{Coverage, Mark};
use flyball_runtime::events::ObjectRef;
use flyball_runtime::{Context, Event, Outcome, Plan};
use parking_lot::RwLock;

use super::catalog::Catalog;
use super::identity::Identity;
use super::server::Server;

pub(super) struct Live {
    cx: Arc<Context>,
    catalog: Arc<RwLock<Catalog>>,
    coverage: Coverage,
}

impl Live {
    /// `coverage`: whether all resources are watched that the server serves.
    pub(super) fn new(cx: Arc<Context>, coverage: Coverage) -> Self {
        Self { cx, catalog: Arc::default(), coverage }
    }

    /// The resources that the server serves; kept up to date by the monitors.
    pub(super) fn catalog(&self) -> Arc<RwLock<Catalog>> {
        self.catalog.clone()
    }
}

impl Server for Live {
    fn resource(&self, api_version: &str, kind: &str) -> Option<ResourceType> {
        self.catalog.read().resource(api_version, kind).cloned()
    }

    fn mark(&self) -> Mark {
        self.coverage.mark()
    }

    fn has_followed(&self, mark: Mark) -> bool {
        self.coverage.covers(mark)
    }

    fn era(&self) -> u64 {
        self.cx.informers.era()
    }

    fn cached(&self, resource: &ResourceType, object: &Identity) -> Option<ObjectMeta> {
        // Only from an informer that runs already: this must not start one, nor keep one.
        let mut found = None;
        self.cx.informers.present(resource)?.look_at(&object.key(), &mut |meta| {
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
        self.cx.executor(owner).run(plan).await.outcome
    }

    fn record(&self, about: &ObjectRef, event: Event) {
        event.record_without_plan(&self.cx.events, about);
    }

    fn judge(&self, check: impl FnOnce() -> Result<(), String>) {
        self.cx.judge(check);
    }
}
