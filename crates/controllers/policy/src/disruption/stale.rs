//! Pods in several budgets, and pods that were about to be disrupted but were not: their `DisruptionTarget` condition is
//! set to false. Pure.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::pod::{ConditionStatus, Pod, PodConditionType};
use flyball_api::time::format_seconds;
use flyball_api::{Object, PodDisruptionBudget, Timestamp};
use flyball_runtime::{Effect, ErrorKinds, Event, Plan, Waiting, Write};
use serde::Deserialize;
use serde_json::{Value, json};

use super::messages;

/// How long a running pod may have the condition.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The kubelet may take any time to terminate a pod with this reason.
const BY_KUBELET: &str = "TerminationByKubelet";
const TARGET: &str = "DisruptionTarget";

/// Everything that the decision depends on.
pub struct View<'a> {
    pub pod: &'a Pod,
    /// The budgets that select it, by name.
    pub budgets: &'a [Arc<PodDisruptionBudget>],
    /// The whole pod as the server has it; only needed if the condition is stale.
    pub whole: Option<&'a Value>,
    /// `PodObservedGenerationTracking`.
    pub tracks_generation: bool,
    pub now: Timestamp,
}

/// Whether the pod is running although it has the condition.
pub fn is_target(pod: &Pod) -> bool {
    let target = pod.status.condition(&PodConditionType::DisruptionTarget);
    !pod.metadata.is_deleting()
        && !pod.is_finished()
        && target
            .is_some_and(|target| target.status == ConditionStatus::True && target.reason() != BY_KUBELET)
}

/// When the condition of a pod becomes stale; `None` if the pod does not have it.
pub fn expiry(pod: &Pod) -> Option<Timestamp> {
    let target = pod.status.condition(&PodConditionType::DisruptionTarget).filter(|_| is_target(pod))?;
    let since = target.last_transition_time().unwrap_or(Timestamp::MIN);
    Some(since.checked_add(TIMEOUT).unwrap_or(Timestamp::MAX))
}

pub fn is_stale(pod: &Pod, now: Timestamp) -> bool {
    expiry(pod).is_some_and(|expiry| expiry <= now)
}

/// Reports a pod in several budgets, and removes a stale condition.
pub fn plan(view: &View<'_>) -> Plan {
    let overlap = match view.budgets {
        [first, _, ..] => {
            let message = messages::overlap(view.pod, &first.metadata.name);
            Some(Event::warning("MultiplePodDisruptionBudgets", message))
        }
        _ => None,
    };
    let plan = Plan::of(overlap.map(Effect::from).into_iter().chain(clearing(view)));
    match expiry(view.pod).filter(|expiry| *expiry > view.now) {
        Some(expiry) => plan
            .again_after(Duration::try_from(expiry.duration_since(view.now)).ok())
            .waiting_for([Waiting::until(expiry, "when the condition DisruptionTarget is stale")]),
        None => plan,
    }
}

/// The write that removes the condition, if it is stale in the cache and on the server.
fn clearing(view: &View<'_>) -> Option<Effect> {
    let whole = view.whole.filter(|_| is_stale(view.pod, view.now))?;
    let fresh = match Pod::deserialize(whole) {
        Ok(fresh) => fresh,
        Err(error) => return Some(Effect::Fail(format!("the pod cannot be decoded: {error}"))),
    };
    if fresh.metadata.uid != view.pod.metadata.uid || !is_stale(&fresh, view.now) {
        return None;
    }
    let body = cleared(whole, view.tracks_generation, view.now)?;
    let write =
        Write::update::<Pod>(view.pod.key(), body).subresource("status").ignore(ErrorKinds::NOT_FOUND);
    Some(write.why("it was about to be disrupted two minutes ago, and is still running").into())
}

/// The whole pod with the condition set to false; `None` if it does not have it. `tracks`: whether to set
/// `observedGeneration`, which is also set if it was set before.
pub fn cleared(pod: &Value, tracks: bool, now: Timestamp) -> Option<Value> {
    let mut pod = pod.clone();
    let generation = pod["metadata"]["generation"].clone();
    let conditions = pod.pointer_mut("/status/conditions").and_then(Value::as_array_mut)?;
    let target = conditions.iter_mut().find(|condition| condition["type"] == TARGET)?;
    if target["status"] != "True" {
        return None;
    }
    let tracks = tracks || target["observedGeneration"].as_i64().unwrap_or(0) != 0;
    *target = json!({
        "type": TARGET,
        "status": "False",
        "lastProbeTime": null,
        "lastTransitionTime": format_seconds(now),
    });
    if tracks {
        target["observedGeneration"] = generation;
    }
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    Some(pod)
}
