//! How a pod is told that it is ended on purpose: the condition `DisruptionTarget`, set before it is deleted.

use flyball_api::Timestamp;
use flyball_api::pod::{ConditionStatus, Pod, PodConditionType};
use flyball_api::time::format_seconds;
use serde_json::{Value, json};

/// Whether the pod already carries the condition in these words.
pub fn is_marked(pod: &Pod, reason: &str, message: &str) -> bool {
    pod.status.condition(&PodConditionType::DisruptionTarget).is_some_and(|held| {
        held.status == ConditionStatus::True && held.reason() == reason && held.message() == message
    })
}

/// The condition. One that holds already keeps the time since when it does.
pub fn target(pod: &Pod, reason: &str, message: &str, now: Timestamp) -> Value {
    let held = pod.status.condition(&PodConditionType::DisruptionTarget);
    let since = held.filter(|held| held.status == ConditionStatus::True);
    let since = since.and_then(|held| held.last_transition_time()).unwrap_or(now);
    json!({
        "type": "DisruptionTarget",
        "status": "True",
        "observedGeneration": pod.metadata.generation,
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_seconds(since),
    })
}
