//! The shell: look up, plan, write.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Endpoints, Key, PartialObject, Resource, Service, manifest};
use flyball_cache::Informer;
use flyball_common::labelled::pods_with;
use flyball_common::pods::is_namespace_going;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Context, Next, Reconcile, SyncError, exactly};

use super::invariants;
use super::plan::{Action, View, plan};
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
        let current = self.endpoints.store().get(key);
        let Some(service) = self.services.store().get(key) else {
            self.trigger_times.forget(key);
            if let Some(endpoints) = current {
                self.delete(key, &endpoints).await?;
            }
            return Ok(Next::Settled);
        };
        let Some(selector) = selector(&service) else { return Ok(Next::Settled) };
        let pods = pods_with(self.pods.store(), &key.namespace, selector);
        let trigger = self.trigger_times.observe(&service, &pods);
        let view = View { service: &service, pods: &pods, current: current.as_deref(), trigger };
        let action = plan(&view);
        self.cx.judge(|| invariants::broken(&view, &action));
        match action {
            Action::Nothing => {}
            Action::Create(endpoints) => self.create(key, &endpoints).await?,
            Action::Update(endpoints) => self.update(key, &endpoints).await?,
        }
        Ok(Next::Settled)
    }
}

impl Controller {
    async fn create(&self, key: &Key, endpoints: &Endpoints) -> Result<(), SyncError> {
        let body = manifest(endpoints).map_err(|error| SyncError::other(format!("encoding {key}"), error))?;
        let why = "the Service has none";
        match self.cx.writer(key).create_dynamic(&Endpoints::TYPE, Some(&key.namespace), &body, why).await {
            Ok(PartialObject { .. }) => Ok(()),
            Err(error) if is_namespace_going(&error) => Ok(()),
            Err(error) => {
                let message = format!("Failed to create endpoint for service {key}: {error}");
                self.events.warning(&ObjectRef::of(endpoints), "FailedToCreateEndpoint", message);
                Err(SyncError::api(format!("creating the Endpoints {key}"))(error))
            }
        }
    }

    async fn update(&self, key: &Key, endpoints: &Endpoints) -> Result<(), SyncError> {
        let body = manifest(endpoints).map_err(|error| SyncError::other(format!("encoding {key}"), error))?;
        let why = "addresses, ports or labels have changed";
        match self.cx.writer(key).update_dynamic(&Endpoints::TYPE, key, None, &body, why).await {
            Ok(PartialObject { .. }) => Ok(()),
            Err(error) => {
                let message = format!("Failed to update endpoint {key}: {error}");
                self.events.warning(&ObjectRef::of(endpoints), "FailedToUpdateEndpoint", message);
                Err(SyncError::api(format!("updating the Endpoints {key}"))(error))
            }
        }
    }

    async fn delete(&self, key: &Key, endpoints: &Endpoints) -> Result<(), SyncError> {
        let options = exactly(&endpoints.metadata);
        match self.cx.writer(key).delete::<Endpoints>(key, options, "their Service is gone").await {
            Err(error) if !error.is_not_found() => {
                Err(SyncError::api(format!("deleting the Endpoints {key}"))(error))
            }
            _ => Ok(()),
        }
    }
}
