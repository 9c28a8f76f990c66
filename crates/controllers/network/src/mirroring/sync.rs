//! The shell: look up, plan, write.

use std::sync::Arc;

use flyball_api::{EndpointSlice, Endpoints, Key, Object, Service, manifest};
use flyball_cache::Informer;
use flyball_common::pods::is_namespace_going;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Context, Next, Reconcile, SyncError, exactly};
use serde_json::Value;

use super::MANAGER;
use super::invariants;
use super::metrics::Numbers;
use super::plan::{Plan, View, is_mirrored, plan};
use crate::ledger::Ledger;
use crate::slices::slices_of;

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) endpoints: Arc<Informer<Endpoints>>,
    pub(super) services: Arc<Informer<Service>>,
    pub(super) slices: Arc<Informer<EndpointSlice>>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) numbers: Numbers,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let started = self.cx.clock.now();
        let slices = slices_of(self.slices.store(), key, MANAGER);
        let has_selector = |service: Arc<Service>| service.spec.selector.is_some();
        let outcome = match self.endpoints.store().get(key).filter(|endpoints| is_mirrored(endpoints)) {
            Some(endpoints)
                if self.services.store().get(key).is_some_and(|service| !has_selector(service)) =>
            {
                let capacity =
                    self.cx.config.endpoint_slice_mirroring_controller.mirroring_max_endpoints_per_subset;
                let capacity = usize::try_from(capacity).unwrap_or(1);
                let view = View { endpoints: &endpoints, slices: &slices, capacity };
                let plan = plan(&view);
                self.cx.judge(|| invariants::broken(&view, &plan));
                self.tell(&endpoints, &plan, capacity);
                self.execute(key, &endpoints, &plan).await
            }
            _ => {
                self.numbers.forget(key);
                self.delete_all(key, &slices).await
            }
        };
        self.numbers.took(self.cx.clock.now().duration_since(started));
        outcome.map(|()| Next::Settled)
    }
}

impl Controller {
    /// Says which addresses are not in the mirror.
    fn tell(&self, endpoints: &Endpoints, plan: &Plan<'_>, capacity: usize) {
        let about = ObjectRef::of(endpoints);
        let Plan { invalid, skipped, .. } = *plan;
        if invalid > 0 {
            let message = format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
            self.events.warning(&about, "InvalidIPAddress", message);
        }
        if skipped > invalid {
            let message = format!(
                "A max of {capacity} addresses can be mirrored to EndpointSlices per Endpoints subset. \
                 {skipped} addresses were skipped"
            );
            self.events.warning(&about, "TooManyAddressesToMirror", message);
        }
    }

    /// Carries a plan out; the first failure ends it.
    async fn execute(&self, key: &Key, endpoints: &Endpoints, plan: &Plan<'_>) -> Result<(), SyncError> {
        self.numbers.planned(key, plan);
        // Endpoints that are being deleted take their slices with them: new ones would race with that.
        let create = if endpoints.is_deleting() { &[] } else { plan.create.as_slice() };
        for slice in create {
            let (body, why) = (body(slice, key)?, "these ports have no mirror yet");
            match self.cx.writer(key).create::<EndpointSlice>(&key.namespace, &body, why).await {
                Ok(created) => self.ledger.wrote(&created),
                Err(error) if is_namespace_going(&error) => return Ok(()),
                Err(error) => return Err(SyncError::api(format!("creating a mirror of {key}"))(error)),
            }
            self.numbers.wrote("create");
        }
        for slice in &plan.update {
            let (name, body, why) = (slice.key(), body(slice, key)?, "the Endpoints say something else");
            let updated = self.cx.writer(key).update::<EndpointSlice>(&name, None, &body, why).await;
            let updated = updated.map_err(SyncError::api(format!("updating the mirror {name}")))?;
            self.ledger.wrote(&updated);
            self.numbers.wrote("update");
        }
        for slice in &plan.delete {
            self.delete(key, slice, "the Endpoints have none of its addresses").await?;
        }
        Ok(())
    }

    /// Deletes a whole mirror; one failure does not keep the other slices.
    async fn delete_all(&self, key: &Key, slices: &[Arc<EndpointSlice>]) -> Result<(), SyncError> {
        let mut failed = None;
        for slice in slices {
            let outcome = self.delete(key, slice, "there is nothing to mirror any more").await;
            failed = failed.or(outcome.err());
        }
        failed.map_or(Ok(()), Err)
    }

    async fn delete(&self, key: &Key, slice: &EndpointSlice, why: &str) -> Result<(), SyncError> {
        let (name, options) = (slice.key(), exactly(&slice.metadata));
        self.ledger.deleted(slice);
        if let Err(error) = self.cx.writer(key).delete::<EndpointSlice>(&name, options, why).await {
            self.ledger.forget(slice);
            if error.is_not_found() {
                return Ok(());
            }
            return Err(SyncError::api(format!("deleting the mirror {name}"))(error));
        }
        self.numbers.wrote("delete");
        Ok(())
    }
}

fn body(slice: &EndpointSlice, key: &Key) -> Result<Value, SyncError> {
    manifest(slice).map_err(|error| SyncError::other(format!("encoding a mirror of {key}"), error))
}
