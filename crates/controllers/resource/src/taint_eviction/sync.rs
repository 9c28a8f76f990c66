//! The shell: look up, plan, plan again over the pod that the server has, execute.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::resource_claim::AllocatedDevice;
use flyball_api::{DeviceTaintRule, Key, Object, ResourceClaim, ResourceSlice, Timestamp, Uid};
use flyball_cache::Informer;
use flyball_client::Error;
use flyball_queue::Queue;
use flyball_runtime::events::ObjectRef;
use flyball_runtime::metrics::{Family, Stability};
use flyball_runtime::{Context, Next, Plan, Reconcile, SyncError};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use super::devices::{Devices, devices_of};
use super::plan::{Eviction, NO_EXECUTE, View, plan, pod_eviction, selects};
use super::rules::{self, Counts, PERIOD};
use super::triggers::Work;

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
    "Time between the end of a pod's toleration time and its deletion.",
);

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) claims: Arc<Informer<ResourceClaim>>,
    pub(super) devices: Devices,
    pub(super) with_groups: bool,
    pub(super) queue: Queue<Work>,
    /// Pods with a planned eviction, until it is made or cancelled.
    pub(super) scheduled: Mutex<FxHashMap<Key, Uid>>,
    /// The rules because of which a pod was deleted, until the cache shows its deletion. Until then their status counts the
    /// pod as pending.
    pub(super) deleted: Mutex<FxHashMap<Key, BTreeSet<SmolStr>>>,
    /// Evictions whose response was lost. The pod counts as evicted if it is deleted when the key is synced again.
    pub(super) unconfirmed: Mutex<FxHashMap<Key, Eviction>>,
    /// The number of evicted pods by rule.
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
        let unconfirmed = self.unconfirmed.lock().remove(key);
        let Some(pod) = pod else {
            self.scheduled.lock().remove(key);
            if let Some(eviction) = unconfirmed {
                self.record_eviction(key, &eviction, self.cx.clock.now());
            }
            if let Some(rules) = self.deleted.lock().remove(key) {
                self.requeue_rules(&rules);
            }
            return Ok(Next::Settled);
        };
        let eviction = self.eviction(&pod, None);
        let scheduled = match &eviction {
            Some(eviction) => {
                self.requeue_rules(&eviction.rules);
                self.scheduled.lock().insert(key.clone(), pod.uid().clone())
            }
            None => self.scheduled.lock().remove(key),
        };
        let (eviction, now) = (eviction.as_ref(), self.cx.clock.now());
        let was_scheduled = scheduled.is_some_and(|uid| uid == *pod.uid());
        let mut planned = plan(&View { pod: &pod, eviction, was_scheduled, now });
        if !planned.writes().is_empty() {
            // The cache may not show yet that the pod is deleted, and its condition decides what is written.
            planned = match self.read_again(key, &pod).await? {
                Some(pod) => plan(&View { pod: &pod, eviction, was_scheduled, now }),
                None => Plan::default(),
            };
        }
        let (is_eviction, is_due) = (!planned.writes().is_empty(), planned.requeue.is_none());
        let about = ObjectRef::named::<Pod>(&key.namespace, &key.name, pod.uid());
        let done = self.cx.executor(key).about(about).execute(planned).await;
        if let Some(eviction) = eviction.filter(|_| is_eviction) {
            match &done {
                Ok(_) => self.record_eviction(key, eviction, now),
                Err(error) if error.api_error().is_some_and(Error::outcome_unknown) => {
                    self.unconfirmed.lock().insert(key.clone(), eviction.clone());
                }
                Err(_) => {}
            }
        }
        let next = done?;
        if is_due {
            self.scheduled.lock().remove(key);
        }
        Ok(next)
    }

    /// The pod as the server has it, unless it is being deleted or gone.
    async fn read_again(&self, key: &Key, known: &Pod) -> Result<Option<Pod>, SyncError> {
        match self.cx.client.get::<Pod>(key).await {
            Ok(pod) => Ok((pod.uid() == known.uid() && !pod.is_deleting()).then_some(pod)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(SyncError::api(format!("reading pod {key} before its eviction"))(error)),
        }
    }

    fn record_eviction(&self, key: &Key, eviction: &Eviction, now: Timestamp) {
        self.cx.metrics.counter(&DELETIONS, &[]).inc();
        let late = now.duration_since(eviction.due).as_secs_f64();
        self.cx.metrics.histogram(&LATENCY, &[]).observe(late.max(0.0));
        let mut evicted = self.evicted.lock();
        for rule in &eviction.rules {
            *evicted.entry(rule.clone()).or_default() += 1;
        }
        self.deleted.lock().insert(key.clone(), eviction.rules.clone());
    }

    /// When a pod is evicted; `as_if` is a rule that counts as if it had the effect `NoExecute`.
    fn eviction(&self, pod: &Pod, as_if: Option<&DeviceTaintRule>) -> Option<Eviction> {
        let claim = |name: &str| self.claims.store().get(&Key::new(pod.metadata.namespace.as_str(), name));
        let taints = |device: &AllocatedDevice| self.devices.taints(device, as_if);
        pod_eviction(pod, claim, taints, self.with_groups)
    }

    /// Requeues the rules with these uids after a while, so that one update of their status covers many pods.
    fn requeue_rules(&self, uids: &BTreeSet<SmolStr>) {
        let Some(rules) = self.devices.rules.as_ref().filter(|_| !uids.is_empty()) else { return };
        for rule in rules.store().list() {
            if uids.contains(&rule.uid().to_smol_str()) {
                self.queue.add_after(Work::Rule(rule.key()), PERIOD.unsigned_abs());
            }
        }
    }

    async fn sync_rule(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(rules) = &self.devices.rules else { return Ok(Next::Settled) };
        let Some(rule) = rules.store().get(key) else {
            let known: BTreeSet<SmolStr> =
                rules.store().list().iter().map(|rule| rule.uid().to_smol_str()).collect();
            self.evicted.lock().retain(|uid, _| known.contains(uid));
            return Ok(Next::Settled);
        };
        let plan = rules::plan(&rule, || self.count(&rule), self.cx.name, self.cx.clock.now());
        self.cx.executor(key).execute(plan).await
    }

    /// What the status of a rule shows. Only the effects `NoExecute` and `None` (a dry run) require a look at all pods.
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
            let allocated = claims.iter().flat_map(|claim| devices_of(claim));
            counts.allocated = allocated.filter(|d| selects(rule, &d.driver, &d.pool, &d.device)).count();
        }
        counts
    }

    fn published(&self, rule: &DeviceTaintRule) -> usize {
        let slices = self.devices.slices.store().list();
        let pools: BTreeSet<_> = slices.iter().map(|s| (&s.spec.driver, &s.spec.pool.name)).collect();
        let current = pools.iter().flat_map(|(driver, pool)| self.devices.current(driver, pool));
        let selected = |slice: &ResourceSlice| {
            let (driver, pool) = (&slice.spec.driver, &slice.spec.pool.name);
            slice.spec.devices.iter().filter(|device| selects(rule, driver, pool, &device.name)).count()
        };
        current.map(|slice| selected(&slice)).sum()
    }
}
