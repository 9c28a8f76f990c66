//! The shell: a pod's turn ends with its deletion or with a time at which to look again; a rule's with its status.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::resource_claim::AllocatedDevice;
use flyball_api::{DeviceTaintRule, Key, Object, PartialObject, Resource, ResourceClaim, ResourceSlice, Uid};
use flyball_cache::Informer;
use flyball_client::{Error, Patch};
use flyball_common::disruption::{is_marked, target};
use flyball_queue::Queue;
use flyball_runtime::events::ObjectRef;
use flyball_runtime::metrics::{Family, Stability};
use flyball_runtime::{Context, Next, Reconcile, SyncError, exactly};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use serde_json::json;
use smol_str::SmolStr;

use super::devices::{Devices, devices_of};
use super::plan::{Eviction, NO_EXECUTE, is_about, of_pod};
use super::rules::{self, Counts, PERIOD};
use super::triggers::Work;

const EVENT: &str = "DeviceTaintManagerEviction";
const REASON: &str = "DeletionByDeviceTaintManager";
const MESSAGE: &str = "Device Taint manager: deleting due to NoExecute taint";

pub(super) static DELETIONS: Family = Family::counter(
    "device_taint_eviction_controller_pod_deletions_total",
    Stability::Alpha,
    &[],
    "Pods that were deleted because of a taint of a device.",
);
pub(super) static LATENCY: Family = Family::histogram(
    "device_taint_eviction_controller_pod_deletion_duration_seconds",
    Stability::Alpha,
    &[],
    &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0],
    "Time from the moment at which a pod had to go until it was deleted.",
);

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) claims: Arc<Informer<ResourceClaim>>,
    pub(super) devices: Devices,
    pub(super) with_groups: bool,
    pub(super) queue: Queue<Work>,
    /// Pods that have to go, until they are gone or need not.
    pub(super) booked: Mutex<FxHashMap<Key, Uid>>,
    /// The rules by which a pod was deleted, until the cache shows it: before that, their status counts it as one that
    /// has to go.
    pub(super) ended: Mutex<FxHashMap<Key, BTreeSet<SmolStr>>>,
    /// How many pods went because of a rule.
    pub(super) evicted: Mutex<FxHashMap<SmolStr, usize>>,
}

impl Reconcile<Work> for Controller {
    async fn sync(&self, work: &Work) -> Result<Next, SyncError> {
        match work {
            Work::Pod(key) => self.sync_pod(key).await,
            Work::Rule(key) => self.sync_rule(key).await,
        }
    }
}

impl Controller {
    async fn sync_pod(&self, key: &Key) -> Result<Next, SyncError> {
        let pod = self.pods.store().get(key).filter(|pod| !pod.is_deleting());
        let Some(pod) = pod else {
            self.booked.lock().remove(key);
            if let Some(rules) = self.ended.lock().remove(key) {
                self.follow_rules(&rules);
            }
            return Ok(Next::Settled);
        };
        let Some(eviction) = self.eviction(&pod, None) else {
            let struck = self.booked.lock().remove(key);
            if struck.is_some_and(|uid| uid == *pod.uid()) {
                self.tell(&pod, "Cancelling deletion");
            }
            return Ok(Next::Settled);
        };
        self.booked.lock().insert(key.clone(), pod.uid().clone());
        self.follow_rules(&eviction.rules);
        if eviction.due > self.cx.clock.now() {
            return Ok(Next::After(self.cx.clock.until(eviction.due)));
        }
        self.evict(key, &pod, &eviction)
            .await
            .map_err(|error| SyncError::api(format!("evicting pod {key}"))(error))?;
        self.booked.lock().remove(key);
        Ok(Next::Settled)
    }

    /// When a pod has to go; `as_if` is a rule that counts as if it ended pods.
    fn eviction(&self, pod: &Pod, as_if: Option<&DeviceTaintRule>) -> Option<Eviction> {
        let claim = |name: &str| self.claims.store().get(&Key::new(pod.metadata.namespace.as_str(), name));
        let said = |device: &AllocatedDevice| self.devices.said(device, as_if);
        of_pod(pod, claim, said, self.with_groups)
    }

    /// The status of a rule that has a part in an eviction is looked at in a while, when more is known.
    fn follow_rules(&self, meant: &BTreeSet<SmolStr>) {
        let Some(rules) = self.devices.rules.as_ref().filter(|_| !meant.is_empty()) else { return };
        for rule in rules.store().list() {
            if meant.contains(&rule.uid().to_smol_str()) {
                self.queue.add_after(Work::Rule(rule.key()), PERIOD.unsigned_abs());
            }
        }
    }

    async fn evict(&self, key: &Key, known: &Pod, eviction: &Eviction) -> Result<(), Error> {
        // The cache may not yet show that somebody else has ended it.
        let pod = match self.cx.client.get::<Pod>(key).await {
            Ok(pod) if pod.uid() == known.uid() && !pod.is_deleting() => pod,
            Ok(_) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
        };
        self.tell(&pod, "Marking for deletion");
        let (writer, now) = (self.cx.writer(key), self.cx.clock.now());
        let why = "a device that it uses has a NoExecute taint that it does not tolerate";
        if !is_marked(&pod, REASON, MESSAGE) {
            let mut condition = target(&pod, REASON, MESSAGE, now);
            // Upstream: unlike others who end pods, it does not say which generation it has seen.
            if let Some(fields) = condition.as_object_mut() {
                fields.remove("observedGeneration");
            }
            let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}});
            writer.patch::<Pod>(key, Some("status"), Patch::Strategic(patch), why).await?;
        }
        writer.delete::<Pod>(key, exactly(&pod.metadata), why).await?;
        self.cx.metrics.counter(&DELETIONS, &[]).inc();
        let late = now.duration_since(eviction.due).as_secs_f64();
        self.cx.metrics.histogram(&LATENCY, &[]).observe(late.max(0.0));
        let mut evicted = self.evicted.lock();
        for rule in &eviction.rules {
            *evicted.entry(rule.clone()).or_default() += 1;
        }
        self.ended.lock().insert(key.clone(), eviction.rules.clone());
        Ok(())
    }

    fn tell(&self, pod: &Pod, message: &str) {
        let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
        self.cx.events.normal(&ObjectRef::named::<Pod>(namespace, name, pod.uid()), EVENT, message);
    }

    async fn sync_rule(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(rules) = &self.devices.rules else { return Ok(Next::Settled) };
        let Some(rule) = rules.store().get(key) else {
            let known: BTreeSet<SmolStr> =
                rules.store().list().iter().map(|rule| rule.uid().to_smol_str()).collect();
            self.evicted.lock().retain(|uid, _| known.contains(uid));
            return Ok(Next::Settled);
        };
        let now = self.cx.clock.now();
        if let Some(wait) = rules::wait(&rule, now) {
            return Ok(Next::After(wait.unsigned_abs()));
        }
        let Some(said) = rules::said(&rule, self.count(&rule), now) else { return Ok(Next::Settled) };
        let object = json!({
            "apiVersion": DeviceTaintRule::TYPE.api_version(),
            "kind": DeviceTaintRule::TYPE.kind,
            "metadata": {"name": key.name, "uid": rule.uid()},
            "status": {"conditions": [said]},
        });
        let patch = Patch::Apply { manager: self.cx.name.into(), force: true, object };
        let why = format!("{}: {}", said.reason, said.message);
        let writer = self.cx.writer(key);
        let written = writer
            .patch_dynamic::<PartialObject>(&DeviceTaintRule::TYPE, key, Some("status"), patch, why)
            .await;
        match written {
            Err(error) if !error.is_not_found() => {
                Err(SyncError::api(format!("writing the status of rule {key}"))(error))
            }
            _ => Ok(Next::Settled),
        }
    }

    /// What there is to say about a rule. All pods are looked at only if the rule ends pods, or asks what would be if it did.
    fn count(&self, rule: &DeviceTaintRule) -> Counts {
        let uid = rule.uid().to_smol_str();
        let mut counts = Counts {
            evicted: self.evicted.lock().get(&uid).copied().unwrap_or_default(),
            ..Counts::default()
        };
        let as_if = match rule.spec.taint.effect.as_str() {
            NO_EXECUTE => None,
            "None" => Some(rule),
            _ => return counts,
        };
        let mut namespaces = BTreeSet::new();
        for pod in self.pods.store().list().iter().filter(|pod| !pod.is_deleting()) {
            if self.eviction(pod, as_if).is_some_and(|eviction| eviction.rules.contains(&uid)) {
                counts.pods += 1;
                namespaces.insert(pod.metadata.namespace.clone());
            }
        }
        counts.namespaces = namespaces.len();
        if as_if.is_some() {
            counts.published = self.published(rule);
            let claims = self.claims.store().list();
            let given = claims.iter().flat_map(|claim| devices_of(claim));
            counts.allocated = given.filter(|d| is_about(rule, &d.driver, &d.pool, &d.device)).count();
        }
        counts
    }

    fn published(&self, rule: &DeviceTaintRule) -> usize {
        let slices = self.devices.slices.store().list();
        let pools: BTreeSet<_> = slices.iter().map(|s| (&s.spec.driver, &s.spec.pool.name)).collect();
        let current = pools.iter().flat_map(|(driver, pool)| self.devices.current(driver, pool));
        let about = |slice: &ResourceSlice| {
            let (driver, pool) = (&slice.spec.driver, &slice.spec.pool.name);
            slice.spec.devices.iter().filter(|device| is_about(rule, driver, pool, &device.name)).count()
        };
        current.map(|slice| about(&slice)).sum()
    }
}
