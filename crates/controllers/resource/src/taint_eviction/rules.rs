//! What is said in the status of a DeviceTaintRule. Pure.

use flyball_api::condition::{self, Condition, FALSE, TRUE};
use flyball_api::{DeviceTaintRule, Timestamp};
use jiff::SignedDuration;
use smol_str::SmolStr;

use super::plan::NO_EXECUTE;

/// Whether pods are being evicted.
const IN_PROGRESS: &str = "EvictionInProgress";
/// The shortest time between two updates.
pub(super) const PERIOD: SignedDuration = SignedDuration::from_secs(10);

/// What was counted for a rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Devices in slices that it speaks of.
    pub published: usize,
    /// Devices given to claims that it speaks of.
    pub allocated: usize,
    /// Pods that have to go, or would have to.
    pub pods: usize,
    /// The namespaces they are in.
    pub namespaces: usize,
    /// Pods that went since the controller was started.
    pub evicted: usize,
}

/// How long the status of a rule is to be left alone.
pub fn wait(rule: &DeviceTaintRule, now: Timestamp) -> Option<SignedDuration> {
    let said = condition::find(&rule.status.conditions, IN_PROGRESS)?;
    let since = now.duration_since(said.last_transition_time?);
    let is_early = said.observed_generation == rule.metadata.generation && since < PERIOD;
    is_early.then(|| PERIOD - since)
}

/// The condition of a rule; nothing if it says nothing new.
pub fn said(rule: &DeviceTaintRule, counts: Counts, now: Timestamp) -> Option<Condition> {
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
