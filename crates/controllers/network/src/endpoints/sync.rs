//! The shell: observe, plan, execute.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Endpoints, Key, Service};
use flyball_cache::Informer;
use flyball_common::labelled::pods_with;
use flyball_runtime::events::Recorder;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::invariants;
use super::plan::{View, plan};
use crate::members::selector;
use crate::trigger_time::TriggerTimes;

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) services: Arc<Informer<Service>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) endpoints: Arc<Informer<Endpoints>>,
    pub(super) trigger_times: TriggerTimes,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let (service, current) = (self.services.store().get(key), self.endpoints.store().get(key));
        let (pods, trigger) = match &service {
            None => {
                self.trigger_times.forget(key);
                (vec![], None)
            }
            Some(service) => match selector(service) {
                None => return Ok(Next::Settled),
                Some(selector) => {
                    let pods = pods_with(self.pods.store(), &key.namespace, selector);
                    let trigger = self.trigger_times.observe(service, &pods);
                    (pods, trigger)
                }
            },
        };
        let view = View { service: service.as_deref(), pods: &pods, current: current.as_deref(), trigger };
        let plan = plan(&view);
        self.cx.judge(|| invariants::check(&view, &plan));
        self.cx.executor(key).events(&self.events).execute(plan).await
    }
}
