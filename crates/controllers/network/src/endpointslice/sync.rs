//! The shell: look up, plan, give hints, write.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{EndpointSlice, Key, Node, Object, Service, Timestamp, manifest};
use flyball_cache::Informer;
use flyball_client::Error;
use flyball_common::labelled::pods_with;
use flyball_common::pods::is_namespace_going;
use flyball_queue::{Priority, Queue};
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Context, Next, Reconcile, SyncError, exactly};
use parking_lot::Mutex;

use super::MANAGER;
use super::hinted::Hinted;
use super::hints::{self, Wish};
use super::invariants;
use super::metrics::{Numbers, Tally};
use super::packing::Changes;
use super::plan::{Plan, View, Zones, is_owned, plan};
use super::topology::{self, Disabled};
use crate::addresses::Family;
use crate::ledger::Ledger;
use crate::members::selector;
use crate::names::{TRIGGER_TIME, ZONE};
use crate::slices::slices_of;
use crate::trigger_time::TriggerTimes;

const HINTS_DISABLED: &str = "TopologyAwareHintsDisabled";

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) services: Arc<Informer<Service>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) slices: Arc<Informer<EndpointSlice>>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) trigger_times: TriggerTimes,
    pub(super) hinted: Arc<Hinted>,
    /// Services with pods that were left out because their nodes are not known.
    pub(super) waiting: Mutex<BTreeSet<Key>>,
    pub(super) numbers: Numbers,
    pub(super) queue: Queue<Key>,
}

/// Looks at the zones after nodes have changed, and wakes the Services whose hints no longer fit or whose pods were
/// left out for want of their nodes.
pub(super) struct ZoneWatch(pub(super) Arc<Controller>);

impl Reconcile for ZoneWatch {
    async fn sync(&self, _: &Key) -> Result<Next, SyncError> {
        let Controller { hinted, waiting, nodes, queue, .. } = &*self.0;
        let waiting = std::mem::take(&mut *waiting.lock());
        for service in hinted.overloaded(nodes.store()).into_iter().chain(waiting) {
            queue.add(service, Priority::Change);
        }
        Ok(Next::Settled)
    }
}

/// A write that failed, in the words of the event about it.
struct Failure {
    told: String,
    error: SyncError,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(service) = self.services.store().get(key) else {
            self.trigger_times.forget(key);
            self.hinted.forget(key);
            self.waiting.lock().remove(key);
            self.numbers.tally(key, None);
            return Ok(Next::Settled);
        };
        let Some(selector) = selector(&service) else { return Ok(Next::Settled) };
        let pods = pods_with(self.pods.store(), &key.namespace, selector);
        let slices = slices_of(self.slices.store(), key, MANAGER);
        let zones = self.zones_of(&pods);
        let trigger = self.trigger_times.observe(&service, &pods);
        let capacity = self.cx.config.endpoint_slice_controller.max_endpoints_per_slice;
        let capacity = usize::try_from(capacity).unwrap_or(1);
        let view = View { service: &service, pods: &pods, zones: &zones, slices: &slices, capacity };

        let plan = plan(&view);
        self.cx.judge(|| invariants::broken(&plan, capacity));
        let outcome = self.execute(&service, key, plan, trigger, capacity).await;
        self.numbers.synced(outcome.is_ok());
        outcome.map(|()| Next::Settled)
    }
}

impl Controller {
    fn zones_of(&self, pods: &[Arc<Pod>]) -> Zones {
        let mut zones = Zones::default();
        for pod in pods {
            let name = &pod.spec.node_name;
            if !zones.contains_key(name)
                && let Some(node) = self.nodes.store().get(&Key::cluster(name.as_str()))
            {
                let zone = node.metadata.labels.get(ZONE).filter(|zone| !zone.is_empty());
                zones.insert(name.clone(), zone.map(Into::into));
            }
        }
        zones
    }

    /// Carries a plan out, family by family. What failed, and which pods had to be left out, is told in one event.
    async fn execute(
        &self,
        service: &Service,
        key: &Key,
        plan: Plan<'_>,
        trigger: Option<Timestamp>,
        capacity: usize,
    ) -> Result<(), SyncError> {
        let wish = Wish::of(service);
        let distribution = service
            .spec
            .traffic_distribution
            .clone()
            .filter(|_| matches!(wish, Wish::SameZone | Wish::SameNode));
        let mut tally = Tally { distribution, ..Tally::default() };
        let mut told: Vec<String> = plan.left_out.iter().map(ToString::to_string).collect();
        if !told.is_empty() {
            self.waiting.lock().insert(key.clone());
        }
        let mut failed = None;
        for (family, mut changes) in plan.families {
            self.numbers.planned(changes.added, changes.removed);
            self.give_hints(service, key, wish, family, &mut changes);
            changes.recycle(|slice| is_owned(slice, service));
            count(&changes, capacity, &mut tally);
            if let Err(Failure { told: text, error }) = self.write(service, key, &changes, trigger).await {
                told.push(text);
                failed = failed.or(Some(error));
            } else {
                let written = changes.create.len() + changes.update.len() + changes.delete.len();
                let topology = if wish == Wish::Auto { "Auto" } else { "Disabled" };
                self.numbers.changed(written, topology, tally.distribution.as_deref().unwrap_or_default());
            }
        }
        self.numbers.tally(key, Some(tally));
        for slice in plan.outdated {
            if let Some(family) = Family::named(&slice.address_type) {
                self.hinted.taken(key, family);
            }
            if let Err(Failure { told: text, error }) =
                self.delete(key, slice, "the Service no longer has this family").await
            {
                told.push(text);
                failed = failed.or(Some(error));
            }
        }
        if told.is_empty() {
            return Ok(());
        }
        let told = if let [only] = told.as_slice() { only.clone() } else { format!("[{}]", told.join(", ")) };
        let message = format!("Error updating Endpoint Slices for Service {key}: {told}");
        self.events.warning(&ObjectRef::of(service), "FailedToUpdateEndpointSlices", message);
        Err(failed.unwrap_or_else(|| SyncError::other(format!("publishing all pods of {key}"), told)))
    }

    /// Gives the endpoints the hints that the Service wants, and tells when that begins or ends.
    fn give_hints(
        &self,
        service: &Service,
        key: &Key,
        wish: Wish,
        family: Family,
        changes: &mut Changes<'_>,
    ) {
        let about = ObjectRef::of(service);
        let disabled = |why: &dyn std::fmt::Display| {
            let message = format!("{why}, addressType: {}", family.as_str());
            self.events.warning(&about, HINTS_DISABLED, message);
        };
        if wish == Wish::Auto {
            let ratios = self.hinted.ratios(self.nodes.store());
            match topology::assign(changes, ratios.as_deref()) {
                Ok(allocated) => {
                    if self.hinted.given(key, family, allocated) {
                        let enabled = "Topology Aware Hints has been enabled";
                        let message = format!("{enabled}, addressType: {}", family.as_str());
                        self.events.normal(&about, "TopologyAwareHintsEnabled", message);
                    }
                }
                Err(why) => {
                    hints::clear(changes);
                    self.hinted.taken(key, family);
                    disabled(&why);
                }
            }
            return;
        }
        if self.hinted.taken(key, family) {
            disabled(&Disabled::ByUser);
        }
        match wish {
            Wish::SameZone => hints::stay_close(changes, false),
            Wish::SameNode => hints::stay_close(changes, true),
            Wish::None | Wish::Auto => hints::clear(changes),
        }
    }

    /// Writes the changes of one family; the first failure ends it.
    async fn write(
        &self,
        service: &Service,
        key: &Key,
        changes: &Changes<'_>,
        trigger: Option<Timestamp>,
    ) -> Result<(), Failure> {
        let failed = |told: String| {
            move |error: Error| Failure {
                told: format!("{told} for Service {key}: {error}"),
                error: SyncError::api(told)(error),
            }
        };
        // A Service that is being deleted takes its slices with it: new ones would race with that.
        let create = if service.is_deleting() { &[] } else { changes.create.as_slice() };
        for slice in create {
            let body = body(slice, trigger, key)?;
            let why = format!("{} endpoints that fit into no other slice", slice.endpoints.len());
            match self.cx.writer(key).create::<EndpointSlice>(&key.namespace, &body, why).await {
                Ok(created) => self.ledger.wrote(&created),
                Err(error) if is_namespace_going(&error) => return Ok(()),
                Err(error) => return Err(failed("failed to create EndpointSlice".into())(error)),
            }
            self.numbers.wrote("create");
        }
        for slice in &changes.update {
            let (name, body) = (slice.key(), body(slice, trigger, key)?);
            let why =
                format!("endpoints, hints or labels have changed; {} endpoints now", slice.endpoints.len());
            let updated = self.cx.writer(key).update::<EndpointSlice>(&name, None, &body, why).await;
            let updated =
                updated.map_err(failed(format!("failed to update {} EndpointSlice", slice.metadata.name)))?;
            self.ledger.wrote(&updated);
            self.numbers.wrote("update");
        }
        for slice in &changes.delete {
            self.delete(key, slice, "none of its endpoints is left").await?;
        }
        Ok(())
    }

    async fn delete(&self, key: &Key, slice: &EndpointSlice, why: &str) -> Result<(), Failure> {
        let options = exactly(&slice.metadata);
        self.ledger.deleted(slice);
        if let Err(error) = self.cx.writer(key).delete::<EndpointSlice>(&slice.key(), options, why).await {
            self.ledger.forget(slice);
            if error.is_not_found() {
                return Ok(());
            }
            let doing = format!("failed to delete {} EndpointSlice", slice.metadata.name);
            let told = format!("{doing} for Service {key}: {error}");
            return Err(Failure { told, error: SyncError::api(doing)(error) });
        }
        self.numbers.wrote("delete");
        Ok(())
    }
}

/// A slice as it is sent, with the time of the change that it answers.
fn body(slice: &EndpointSlice, trigger: Option<Timestamp>, key: &Key) -> Result<serde_json::Value, Failure> {
    let mut slice = slice.clone();
    let annotations = &slice.metadata.annotations;
    slice.metadata.annotations = match trigger {
        Some(time) => annotations.with(TRIGGER_TIME, &time.to_string()),
        None => annotations.without(TRIGGER_TIME),
    };
    manifest(&slice).map_err(|error| Failure {
        told: format!("failed to encode EndpointSlice for Service {key}: {error}"),
        error: SyncError::other(format!("encoding a slice of {key}"), error),
    })
}

fn count(changes: &Changes<'_>, capacity: usize, tally: &mut Tally) {
    let kept = changes.unchanged.iter().copied();
    for slice in changes.create.iter().chain(&changes.update).chain(kept) {
        tally.slices += 1;
        tally.endpoints += slice.endpoints.len();
    }
    tally.desired += tally.endpoints.div_ceil(capacity.max(1)).max(1);
}
