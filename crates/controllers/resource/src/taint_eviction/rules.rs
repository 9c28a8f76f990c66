//! The status of a DeviceTaintRule. Pure.

use std::collections::BTreeSet;

use flyball_api::condition::{self, Condition, FALSE, TRUE};
use flyball_api::{DeviceTaintRule, Object, Resource, Timestamp};
use flyball_client::Patch;
use flyball_runtime::{ErrorKinds, Plan, Waiting, Write};
use jiff::SignedDuration;
use serde_json::json;
use smol_str::SmolStr;

use super::plan::{Eviction, NO_EXECUTE, selects};

const IN_PROGRESS: &str = "EvictionInProgress";
/// The shortest time between two updates of a status.
pub(super) const PERIOD: SignedDuration = SignedDuration::from_secs(10);

/// What was counted for a rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Devices in slices that it selects.
    pub published: usize,
    /// Devices that are allocated to ResourceClaims and that it selects.
    pub allocated: usize,
    /// Pods that have to be evicted, or would have to be.
    pub pods: usize,
    /// The namespaces of these pods.
    pub namespaces: usize,
    /// Pods that were evicted since the controller was started.
    pub evicted: usize,
}

/// Which pods have to be looked at to count those that a rule affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// No pods: the effect of the rule evicts none.
    Nothing,
    /// Those that the rule evicts.
    Evicted,
    /// A dry run: those that the rule would evict if it had the effect `NoExecute`.
    AsIf,
}

pub fn scope(rule: &DeviceTaintRule) -> Scope {
    match rule.spec.taint.effect.as_str() {
        NO_EXECUTE => Scope::Evicted,
        "None" => Scope::AsIf,
        _ => Scope::Nothing,
    }
}

/// A device by driver, pool and name.
pub type DeviceName<'a> = (&'a str, &'a str, &'a str);

/// Counts what a rule affects. `pods` are the evictions of pods that exist, with their namespaces; `published` and `allocated` are
/// devices.
pub fn count<'a>(
    rule: &DeviceTaintRule,
    evicted: usize,
    pods: impl IntoIterator<Item = (SmolStr, Eviction)>,
    published: impl IntoIterator<Item = DeviceName<'a>>,
    allocated: impl IntoIterator<Item = DeviceName<'a>>,
) -> Counts {
    let uid = rule.uid().to_smol_str();
    let affected = pods.into_iter().filter(|(_, eviction)| eviction.rules.contains(&uid));
    let namespaces_of_pods: Vec<SmolStr> = affected.map(|(namespace, _)| namespace).collect();
    let selected = |(driver, pool, name): &DeviceName<'_>| selects(rule, driver, pool, name);
    Counts {
        published: published.into_iter().filter(selected).count(),
        allocated: allocated.into_iter().filter(selected).count(),
        pods: namespaces_of_pods.len(),
        namespaces: namespaces_of_pods.into_iter().collect::<BTreeSet<_>>().len(),
        evicted,
    }
}

/// Updates the status of a rule, unless that was done a short time ago. `counts` is called only if it is due.
pub fn plan(rule: &DeviceTaintRule, counts: impl FnOnce() -> Counts, manager: &str, now: Timestamp) -> Plan {
    if let Some(wait) = wait(rule, now) {
        let time = now.checked_add(wait).unwrap_or(Timestamp::MAX);
        let waiting = Waiting::until(time, "when its status may be updated again");
        return Plan::after(wait.unsigned_abs()).waiting_for([waiting]);
    }
    let Some(condition) = condition(rule, counts(), now) else { return Plan::default() };
    let why = format!("{}: {}", condition.reason, condition.message);
    let object = json!({
        "apiVersion": DeviceTaintRule::TYPE.api_version(),
        "kind": DeviceTaintRule::TYPE.kind,
        "metadata": {"name": rule.metadata.name, "uid": rule.uid()},
        "status": {"conditions": [condition]},
    });
    let patch = Patch::Apply { manager: manager.into(), force: true, object };
    let write = Write::patch::<DeviceTaintRule>(rule.key(), patch).subresource("status");
    Plan::of([write.ignore(ErrorKinds::NOT_FOUND).why(why)])
}

/// How long to wait until the status of a rule may be updated again.
fn wait(rule: &DeviceTaintRule, now: Timestamp) -> Option<SignedDuration> {
    let known = condition::find(&rule.status.conditions, IN_PROGRESS)?;
    let since = now.duration_since(known.last_transition_time?);
    let is_early = known.observed_generation == rule.metadata.generation && since < PERIOD;
    is_early.then(|| PERIOD - since)
}

/// The new condition of a rule; `None` if it has not changed.
fn condition(rule: &DeviceTaintRule, counts: Counts, now: Timestamp) -> Option<Condition> {
    let (status, reason, mut message) = match rule.spec.taint.effect.as_str() {
        NO_EXECUTE if counts.pods > 0 => {
            let pods = number(counts.pods, "1 pod needs", "pods need");
            let namespaces = number(counts.namespaces, "1 namespace", "different namespaces");
            (TRUE, "PodsPendingEviction", format!("{pods} to be evicted in {namespaces}."))
        }
        NO_EXECUTE if counts.evicted > 0 => (FALSE, "Completed", String::new()),
        NO_EXECUTE => (FALSE, "NotStarted", String::new()),
        "None" => (FALSE, "NoEffect", would_be(counts)),
        _ => (FALSE, "OtherEffect", "Eviction only happens for the NoExecute effect.".to_owned()),
    };
    if counts.evicted > 0 {
        let space = if message.is_empty() { "" } else { " " };
        let pods = number(counts.evicted, "1 pod", "pods");
        message.push_str(&format!("{space}{pods} evicted since starting the controller."));
    }
    let known = condition::find(&rule.status.conditions, IN_PROGRESS);
    let new = Condition {
        type_: SmolStr::new_static(IN_PROGRESS),
        status: SmolStr::new_static(status),
        observed_generation: rule.metadata.generation,
        last_transition_time: known.and_then(|known| known.last_transition_time),
        reason: SmolStr::new_static(reason),
        message: message.into(),
        ..Condition::default()
    };
    (known != Some(&new)).then_some(Condition { last_transition_time: Some(now), ..new })
}

fn would_be(counts: Counts) -> String {
    let published = number(counts.published, "1 published device", "published devices");
    let allocated = number(counts.allocated, "1 allocated device", "allocated devices");
    let pods = number(counts.pods, "1 pod", "pods");
    let namespaces = number(counts.namespaces, "1 namespace", "different namespaces");
    format!(
        "{published} selected. {allocated} selected. {pods} would be evicted in {namespaces} if the effect was \
         NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
    )
}

fn number(count: usize, one: &str, many: &str) -> String {
    if count == 1 { one.to_owned() } else { format!("{count} {many}") }
}
