//! When a pod has to go because of what is said against its devices. Pure.

use std::collections::BTreeSet;

use flyball_api::pod::Pod;
use flyball_api::resource_claim::AllocatedDevice;
use flyball_api::taint::Taint;
use flyball_api::{DeviceTaintRule, ResourceClaim, Timestamp, Uid};
use jiff::SignedDuration;
use smol_str::SmolStr;

use crate::claim::consumer::{Consumer, Stands, is_for_pod, is_reserved};

/// The effect that ends pods.
pub const NO_EXECUTE: &str = "NoExecute";

/// That a pod has to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    pub due: Timestamp,
    /// The rules that have a part in it.
    pub rules: BTreeSet<SmolStr>,
}

impl Eviction {
    /// The earlier of both times, and the rules of both.
    fn joined(self, other: Self) -> Self {
        Self { due: self.due.min(other.due), rules: self.rules.into_iter().chain(other.rules).collect() }
    }
}

/// A taint, and the uid of the rule that it comes from; those of drivers come from no rule.
pub type Said = (Taint, Option<Uid>);

/// When users of a claim have to go. `said` gives the taints of a device that end pods.
pub fn of_claim(claim: &ResourceClaim, said: impl Fn(&AllocatedDevice) -> Vec<Said>) -> Option<Eviction> {
    let devices = &claim.status.allocation.as_ref()?.devices.results;
    let evictions = devices.iter().flat_map(|device| {
        said(device).into_iter().filter_map(|(taint, rule)| {
            let due = due(&taint, device)?;
            Some(Eviction { due, rules: rule.iter().map(Uid::to_smol_str).collect() })
        })
    });
    evictions.reduce(Eviction::joined)
}

/// When a device's users have to go because of a taint; never if it is tolerated for good. Only tolerations that name the
/// effect count.
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

/// When a pod has to go: with the first of the claims that it uses. One that runs nowhere need not.
pub fn of_pod(
    pod: &Pod,
    claim: impl Fn(&str) -> Option<std::sync::Arc<ResourceClaim>>,
    said: impl Fn(&AllocatedDevice) -> Vec<Said>,
    with_groups: bool,
) -> Option<Eviction> {
    if pod.spec.node_name.is_empty() {
        return None;
    }
    let consumer = Consumer::from(pod);
    let evictions = consumer.entries.iter().filter_map(|entry| {
        let (name, is_made) = match consumer.stands(entry) {
            Stands::Given(name) => (name, false),
            Stands::Made { name, .. } => (name, true),
            Stands::NotNeeded | Stands::NotMade(_) | Stands::Unknown => return None,
        };
        let claim = claim(name)?;
        let is_its_own = !is_made || is_for_pod(pod, &claim, with_groups);
        let is_used = is_its_own && is_reserved(pod, &claim, with_groups);
        is_used.then(|| of_claim(&claim, &said)).flatten()
    });
    evictions.reduce(Eviction::joined)
}

/// What a rule says of its devices when it ends pods, or if it did: tolerations are for that effect.
pub fn evicting(rule: &DeviceTaintRule) -> Said {
    let taint = Taint { effect: NO_EXECUTE.into(), ..rule.spec.taint.clone() };
    (taint, Some(rule.metadata.uid.clone()))
}

/// Whether a rule speaks of a device.
pub fn is_about(rule: &DeviceTaintRule, driver: &str, pool: &str, device: &str) -> bool {
    let is = |wanted: &Option<SmolStr>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
    rule.spec.device_selector.as_ref().is_some_and(|selector| {
        is(&selector.driver, driver) && is(&selector.pool, pool) && is(&selector.device, device)
    })
}
