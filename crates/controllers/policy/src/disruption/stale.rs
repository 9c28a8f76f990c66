//! Pods that were about to be disrupted and were not: their `DisruptionTarget` condition is taken back. Pure.

use std::time::Duration;

use flyball_api::Timestamp;
use flyball_api::pod::{ConditionStatus, Pod, PodConditionType};
use flyball_api::time::format_seconds;
use serde_json::{Value, json};

/// How long a living pod may say that it is about to be disrupted.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The kubelet may take any time to end a pod after it has said so.
const BY_KUBELET: &str = "TerminationByKubelet";
const TARGET: &str = "DisruptionTarget";

/// What to do about the condition of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Leave,
    /// Look again after this long.
    Wait(Duration),
    Clear,
}

/// Whether the pod lives on although it says that it is about to be disrupted.
pub fn is_condemned(pod: &Pod) -> bool {
    let target = pod.status.condition(&PodConditionType::DisruptionTarget);
    !pod.metadata.is_deleting()
        && !pod.is_finished()
        && target.is_some_and(|said| said.status == ConditionStatus::True && said.reason() != BY_KUBELET)
}

pub fn verdict(pod: &Pod, now: Timestamp) -> Verdict {
    let target = pod.status.condition(&PodConditionType::DisruptionTarget);
    let Some(said) = target.filter(|_| is_condemned(pod)) else { return Verdict::Leave };
    let since = said.last_transition_time().unwrap_or(Timestamp::MIN);
    let end = since.checked_add(TIMEOUT).unwrap_or(Timestamp::MAX);
    match Duration::try_from(end.duration_since(now)) {
        Ok(left) if !left.is_zero() => Verdict::Wait(left),
        _ => Verdict::Clear,
    }
}

/// Takes the condition back in a whole pod; says whether there was anything to take back.
pub fn clear(pod: &mut Value, now: Timestamp) -> bool {
    let generation = pod["metadata"]["generation"].clone();
    let conditions = pod.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    let target = conditions.and_then(|all| all.iter_mut().find(|said| said["type"] == TARGET));
    let Some(target) = target.filter(|said| said["status"] == "True") else { return false };
    *target = json!({
        "type": TARGET,
        "status": "False",
        "observedGeneration": generation,
        "lastProbeTime": null,
        "lastTransitionTime": format_seconds(now),
    });
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    true
}
