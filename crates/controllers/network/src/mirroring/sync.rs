//! The shell: observe, plan, execute.

use std::sync::Arc;

use flyball_api::{EndpointSlice, Endpoints, Key, Service};
use flyball_cache::Informer;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::MANAGER;
use super::invariants;
use super::metrics::Numbers;
use super::plan::{View, plan};
use crate::own_writes::OwnWrites;
use crate::slices::slices_of;

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) endpoints: Arc<Informer<Endpoints>>,
    pub(super) services: Arc<Informer<Service>>,
    pub(super) slices: Arc<Informer<EndpointSlice>>,
    pub(super) own_writes: Arc<OwnWrites>,
    pub(super) numbers: Numbers,
    pub(super) capacity: usize,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let started = self.cx.clock.now();
        let slices = slices_of(self.slices.store(), key, MANAGER);
        let (endpoints, service) = (self.endpoints.store().get(key), self.services.store().get(key));
        let view = View {
            endpoints: endpoints.as_deref(),
            service: service.as_deref(),
            slices: &slices,
            capacity: self.capacity,
        };
        let mirror = view.mirror();
        if let Some(mirror) = &mirror {
            self.cx.judge(|| invariants::check(&view, mirror));
        }
        self.numbers.planned(key, mirror.as_ref());
        let plan = plan(&view, mirror.as_ref());

        let expected = self.own_writes.expect_deletions(&plan);
        let mut executor = self.cx.executor(key).events(&self.events);
        if let Some(endpoints) = &endpoints {
            executor = executor.about(ObjectRef::of(&**endpoints));
        }
        let done = executor.run(plan).await;
        self.own_writes.record(&done.outcome, expected);
        done.outcome.written().for_each(|done| self.numbers.wrote(done.tag.verb.as_str()));
        self.numbers.took(self.cx.clock.now().duration_since(started));
        done.result()
    }
}
