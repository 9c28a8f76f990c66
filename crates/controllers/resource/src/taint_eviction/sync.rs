//! The shell: look up, plan, plan again over the pod that the server has, execute.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::resource_claim::AllocatedDevice;
use flyball_api::{DeviceTaintRule, Key, Object, ResourceClaim, Timestamp};
use flyball_cache::Informer;
use flyball_queue::Queue;
use flyball_runtime::events::ObjectRef;
use flyball_runtime::metrics::{EVICTION_SECONDS, Family, Stability};
use flyball_runtime::{Context, Next, Plan, Reconcile, SyncError};
use parking_lot::Mutex;
use smol_str::SmolStr;

use super::devices::{Devices, devices_of};
use super::evictions::Evictions;
use super::invariants;
use super::plan::{Eviction, View, plan, pod_eviction};
use super::rules::{self, Counts, PERIOD, Scope};
use super::triggers::Work;

pub(super) static DELETIONS: Family = Family::counter(
    "device_taint_eviction_controller_pod_deletions_total",
    Stability::Alpha,
    &[],
    "Total number of Pods deleted by DeviceTaintEvictionController since its start.",
);
pub(super) static LATENCY: Family = Family::histogram(
    "device_taint_eviction_controller_pod_deletion_duration_seconds",
    Stability::Alpha,
    &[],
    EVICTION_SECONDS,
    "Latency, in seconds, between the time when a device taint effect has been activated and a Pod's deletion via DeviceTaintEvictionController.",
);

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) claims: Arc<Informer<ResourceClaim>>,
    pub(super) devices: Devices,
    pub(super) with_groups: bool,
    pub(super) queue: Queue<Work>,
    pub(super) evictions: Mutex<Evictions>,
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
            let gone = self.evictions.lock().gone(key);
            if let Some(eviction) = &gone.confirmed {
                self.observe(eviction, self.cx.clock.now());
            }
            self.requeue_rules(&gone.rules);
            return Ok(Next::Settled);
        };
        let eviction = self.eviction(&pod, None);
        if let Some(eviction) = &eviction {
            self.requeue_rules(&eviction.rules);
        }
        let was_scheduled = self.evictions.lock().schedule(key, pod.uid(), eviction.is_some());
        let (eviction, now) = (eviction.as_ref(), self.cx.clock.now());
        let mut planned = plan(&View { pod: &pod, eviction, was_scheduled, now });
        if !planned.writes().is_empty() {
            // The cache may not show yet that the pod is deleted, and its condition decides what is written.
            planned = match self.read_again(key, &pod).await? {
                Some(pod) => {
                    let view = View { pod: &pod, eviction, was_scheduled, now };
                    let planned = plan(&view);
                    self.cx.judge(|| invariants::check(&view, &planned));
                    planned
                }
                None => Plan::default(),
            };
        }
        let (is_eviction, is_due) = (!planned.writes().is_empty(), planned.requeue.is_none());
        let about = ObjectRef::named::<Pod>(&key.namespace, &key.name, pod.uid());
        let done = self.cx.executor(key).about(about).execute(planned).await;
        let eviction = eviction.filter(|_| is_eviction);
        if let Some(made) = self.evictions.lock().record(key, eviction, (&done).into(), is_due) {
            self.observe(made, now);
        }
        done
    }

    /// The pod as the server has it, unless it is being deleted or gone.
    async fn read_again(&self, key: &Key, known: &Pod) -> Result<Option<Pod>, SyncError> {
        let found = self.cx.find::<Pod>(key).await?;
        Ok(found.filter(|pod| pod.uid() == known.uid() && !pod.is_deleting()))
    }

    /// Shows an eviction in metrics.
    fn observe(&self, eviction: &Eviction, now: Timestamp) {
        self.cx.metrics.counter(&DELETIONS, &[]).inc();
        let late = now.duration_since(eviction.due).as_secs_f64();
        self.cx.metrics.histogram(&LATENCY, &[]).observe(late.max(0.0));
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
            self.evictions.lock().retain_rules(|uid| known.contains(uid));
            return Ok(Next::Settled);
        };
        let plan = rules::plan(&rule, || self.count(&rule), self.cx.name, self.cx.clock.now());
        self.cx.executor(key).execute(plan).await
    }

    /// What the status of a rule shows.
    fn count(&self, rule: &DeviceTaintRule) -> Counts {
        let evicted = self.evictions.lock().because_of(&rule.uid().to_smol_str());
        let (pods, slices, claims) = match rules::scope(rule) {
            Scope::Nothing => Default::default(),
            Scope::Evicted => (self.evictions_of_pods(None), vec![], vec![]),
            Scope::AsIf => {
                (self.evictions_of_pods(Some(rule)), self.devices.published(), self.claims.store().list())
            }
        };
        let published = slices.iter().flat_map(|slice| {
            let (driver, pool) = (slice.spec.driver.as_str(), slice.spec.pool.name.as_str());
            slice.spec.devices.iter().map(move |device| (driver, pool, device.name.as_str()))
        });
        let allocated = claims.iter().flat_map(|claim| devices_of(claim));
        let allocated = allocated.map(|found| (&*found.driver, &*found.pool, &*found.device));
        rules::count(rule, evicted, pods, published, allocated)
    }

    /// The evictions of all pods that exist, with their namespaces.
    fn evictions_of_pods(&self, as_if: Option<&DeviceTaintRule>) -> Vec<(SmolStr, Eviction)> {
        let pods = self.pods.store().list().into_iter().filter(|pod| !pod.is_deleting());
        let eviction = |pod: Arc<Pod>| Some((pod.metadata.namespace.clone(), self.eviction(&pod, as_if)?));
        pods.filter_map(eviction).collect()
    }
}
