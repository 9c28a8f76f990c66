//! The condition `DisruptionTarget`, which a pod gets before it is evicted.

use flyball_api::Timestamp;
use flyball_api::pod::{ConditionStatus, Pod, PodConditionType};
use flyball_api::time::format_seconds;
use serde_json::{Value, json};

/// Whether the pod has the condition with this reason and message.
pub fn is_marked(pod: &Pod, reason: &str, message: &str) -> bool {
    pod.status.condition(&PodConditionType::DisruptionTarget).is_some_and(|held| {
        held.status == ConditionStatus::True && held.reason() == reason && held.message() == message
    })
}

/// The DisruptionTarget condition. If it is true already, its transition time does not change. `tracks`
/// (`PodObservedGenerationTracking`): whether to set `observedGeneration`, which is also set if it was set before.
pub fn target(pod: &Pod, reason: &str, message: &str, tracks: bool, now: Timestamp) -> Value {
    let held = pod.status.condition(&PodConditionType::DisruptionTarget);
    let since = held.filter(|held| held.status == ConditionStatus::True);
    let since = since.and_then(|held| held.last_transition_time()).unwrap_or(now);
    let mut condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_seconds(since),
    });
    if tracks || held.is_some_and(|held| held.observed_generation != 0) {
        condition["observedGeneration"] = pod.metadata.generation.into();
    }
    condition
}
