//! When a pod is evicted because of the taints of its devices, and how. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::resource_claim::AllocatedDevice;
use flyball_api::taint::Taint;
use flyball_api::{DeviceTaintRule, Object, ResourceClaim, ResourceSlice, Timestamp, Uid};
use flyball_client::Patch;
use flyball_common::disruption::{is_marked, target};
use flyball_runtime::{ErrorKinds, Event, Plan, Waiting, Write, exactly};
use jiff::SignedDuration;
use serde_json::json;
use smol_str::SmolStr;

use crate::resource_claim::consumer::{Consumer, Entry, is_for_pod, is_reserved};

/// The effect that evicts pods.
pub const NO_EXECUTE: &str = "NoExecute";

const EVENT: &str = "DeviceTaintManagerEviction";
const REASON: &str = "DeletionByDeviceTaintManager";
const MESSAGE: &str = "Device Taint manager: deleting due to NoExecute taint";

/// The eviction of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    pub due: Timestamp,
    /// The uids of the rules whose taints are among the causes.
    pub rules: BTreeSet<SmolStr>,
}

impl Eviction {
    /// The earlier time, and the rules of both.
    fn joined(self, other: Self) -> Self {
        Self { due: self.due.min(other.due), rules: self.rules.into_iter().chain(other.rules).collect() }
    }
}

/// Everything that the decision about a pod depends on.
pub struct View<'a> {
    pub pod: &'a Pod,
    pub eviction: Option<&'a Eviction>,
    /// Whether an eviction of this pod was planned by an earlier sync.
    pub was_scheduled: bool,
    pub now: Timestamp,
}

/// Evicts the pod if that is due: sets its condition, then deletes it.
pub fn plan(view: &View<'_>) -> Plan {
    let Some(eviction) = view.eviction else {
        let cancelled = view.was_scheduled.then(|| Event::normal(EVENT, "Cancelling deletion"));
        return Plan::of(cancelled);
    };
    if let Ok(left) = eviction.due.duration_since(view.now).try_into()
        && eviction.due > view.now
    {
        let when = "when it is evicted because of the taint of a device";
        return Plan::after(left).waiting_for([Waiting::until(eviction.due, when)]);
    }
    let why = "a device that it uses has a NoExecute taint that is not tolerated";
    let delete = Write::delete_with::<Pod>(view.pod.key(), exactly(&view.pod.metadata));
    let writes = mark(view.pod, view.now).into_iter().chain([delete.ignore_only(ErrorKinds::NONE)]);
    Plan::of(writes.map(|write| write.why(why))).preceded_by([Event::normal(EVENT, "Marking for deletion")])
}

/// Sets the condition `DisruptionTarget`, unless the pod has it.
fn mark(pod: &Pod, now: Timestamp) -> Option<Write> {
    if is_marked(pod, REASON, MESSAGE) {
        return None;
    }
    let mut condition = target(pod, REASON, MESSAGE, false, now);
    // Upstream: unlike other controllers that evict pods, this one sets no observed generation.
    if let Some(fields) = condition.as_object_mut() {
        fields.remove("observedGeneration");
    }
    let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}});
    Some(Write::patch::<Pod>(pod.key(), Patch::Strategic(patch)).subresource("status"))
}

/// A taint, and the uid of its DeviceTaintRule; taints in slices come from the driver and have none.
pub type DeviceTaint = (Taint, Option<Uid>);

/// When pods that use a ResourceClaim are evicted. `taints` returns the `NoExecute` taints of a device.
pub fn claim_eviction(
    claim: &ResourceClaim,
    taints: impl Fn(&AllocatedDevice) -> Vec<DeviceTaint>,
) -> Option<Eviction> {
    let devices = &claim.status.allocation.as_ref()?.devices.results;
    let evictions = devices.iter().flat_map(|device| {
        taints(device).into_iter().filter_map(|(taint, rule)| {
            let due = due(&taint, device)?;
            Some(Eviction { due, rules: rule.iter().map(Uid::to_smol_str).collect() })
        })
    });
    evictions.reduce(Eviction::joined)
}

/// When the users of a device are evicted because of a taint; `None` if it is tolerated without a limit. Only tolerations
/// that name the effect count.
fn due(taint: &Taint, device: &AllocatedDevice) -> Option<Timestamp> {
    let since = taint.time_added?;
    let tolerations = device
        .tolerations
        .iter()
        .filter(|toleration| toleration.effect == NO_EXECUTE && toleration.tolerates(taint, false));
    let mut shortest: Option<i64> = None;
    for toleration in tolerations {
        let seconds = toleration.toleration_seconds?.max(0);
        shortest = Some(shortest.map_or(seconds, |known| known.min(seconds)));
    }
    let delay = SignedDuration::from_secs(shortest.unwrap_or(0));
    Some(since.checked_add(delay).unwrap_or(Timestamp::MAX))
}

/// When a pod is evicted: with the first of the ResourceClaims that it uses. A pod without a node is not.
pub fn pod_eviction(
    pod: &Pod,
    claim: impl Fn(&str) -> Option<Arc<ResourceClaim>>,
    taints: impl Fn(&AllocatedDevice) -> Vec<DeviceTaint>,
    with_groups: bool,
) -> Option<Eviction> {
    if pod.spec.node_name.is_empty() {
        return None;
    }
    let consumer = Consumer::from(pod);
    let evictions = consumer.entries.iter().filter_map(|entry| {
        let (name, is_generated) = match consumer.resolve(entry) {
            Entry::Named(name) => (name, false),
            Entry::Generated { name, .. } => (name, true),
            Entry::NotNeeded | Entry::Missing(_) | Entry::Unknown => return None,
        };
        let claim = claim(name)?;
        let is_its_own = !is_generated || is_for_pod(pod, &claim, with_groups);
        let is_used = is_its_own && is_reserved(pod, &claim, with_groups);
        is_used.then(|| claim_eviction(&claim, &taints)).flatten()
    });
    evictions.reduce(Eviction::joined)
}

/// The slices of a pool that count: those of its latest generation.
pub fn current(mut slices: Vec<Arc<ResourceSlice>>) -> Vec<Arc<ResourceSlice>> {
    let latest = slices.iter().map(|slice| slice.spec.pool.generation).max();
    slices.retain(|slice| Some(slice.spec.pool.generation) == latest);
    slices
}

/// The `NoExecute` taints of a device: those of the driver, in the current slices of its pool, and those of the rules that select it.
/// `as_if` is a rule that counts as if it had that effect.
pub fn taints(
    device: &AllocatedDevice,
    slices: &[Arc<ResourceSlice>],
    rules: &[Arc<DeviceTaintRule>],
    as_if: Option<&DeviceTaintRule>,
) -> Vec<DeviceTaint> {
    let found = slices.iter().filter_map(|slice| {
        let mut devices = slice.spec.devices.iter();
        devices.find(|found| found.name == device.device)
    });
    let of_driver = found.flat_map(|found| &found.taints).filter(|taint| taint.effect == NO_EXECUTE);
    let rules = rules.iter().map(|rule| &**rule).filter(|rule| rule.spec.taint.effect == NO_EXECUTE);
    let rules = rules.chain(as_if).filter(|rule| selects(rule, &device.driver, &device.pool, &device.device));
    of_driver.map(|taint| (taint.clone(), None)).chain(rules.map(evicting)).collect()
}

/// The taint of a rule with the effect `NoExecute`, whatever effect it has: tolerations are for that effect.
pub fn evicting(rule: &DeviceTaintRule) -> DeviceTaint {
    let taint = Taint { effect: NO_EXECUTE.into(), ..rule.spec.taint.clone() };
    (taint, Some(rule.metadata.uid.clone()))
}

/// Whether a rule selects a device.
pub fn selects(rule: &DeviceTaintRule, driver: &str, pool: &str, device: &str) -> bool {
    let is = |wanted: &Option<SmolStr>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
    rule.spec.device_selector.as_ref().is_some_and(|selector| {
        is(&selector.driver, driver) && is(&selector.pool, pool) && is(&selector.device, device)
    })
}
