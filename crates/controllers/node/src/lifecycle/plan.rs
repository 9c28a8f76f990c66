//! What is done about one key: the taints and labels of a node, the readiness of a pod on a node that is not ready. Pure.

use flyball_api::pod::{ConditionStatus, Pod, PodConditionType};
use flyball_api::{Node, Object, ObjectMeta, Resource, Timestamp};
use flyball_client::Patch;
use flyball_runtime::events::ObjectRef;
use flyball_runtime::{Effect, ErrorKinds, Event, Plan, Write};
use serde::Deserialize;
use serde_json::{Value, json};

use super::status::{Ready, not_ready, readiness};
use super::{labels, taints};

/// Makes `NoSchedule` taints and deprecated labels follow what the node reports.
pub fn plan(node: &Node, now: Timestamp) -> Plan {
    let taints = taints::write(node, taints::no_schedule, "taints follow the conditions of the node", now);
    let labels = labels::patch(&node.metadata.labels).map(|patch| {
        Write::patch::<Node>(node.key(), Patch::Strategic(patch))
            .why("deprecated labels follow those that replaced them")
            .ignore(ErrorKinds::NOT_FOUND)
    });
    let writes: Vec<Write> = taints.into_iter().chain(labels).collect();
    if writes.is_empty() { Plan::default() } else { Plan::of([Effect::each(writes)]) }
}

/// Whether a pod that was bound to a node must be marked as not ready. The monitor marks those that were there before.
pub fn must_mark(node: &Node, pod: &Pod) -> bool {
    readiness(node).is_some_and(|ready| ready != Ready::True) && claims_ready(pod)
}

/// Whether a pod's `Ready` condition is not false.
pub fn claims_ready(pod: &Pod) -> bool {
    let ready = pod.status.condition(&PodConditionType::Ready);
    ready.is_some_and(|ready| ready.status != ConditionStatus::False)
}

/// Marks a pod as not ready, unless another pod has its name by now. `live` is what the server has: caches hold only parts
/// of the status, and a PUT replaces all of it.
pub fn mark(pod: &Pod, live: &Value, now: Timestamp) -> Plan {
    let is_same = live["metadata"]["uid"] == json!(pod.metadata.uid);
    Plan::of(is_same.then(|| mark_live(live, now)).flatten())
}

/// The write that marks a pod as not ready; `None` if it is already.
pub fn mark_live(live: &Value, now: Timestamp) -> Option<Write> {
    let mut body = not_ready(live, now)?;
    // Items of a list come without their kind.
    body["apiVersion"] = json!(Pod::TYPE.api_version());
    body["kind"] = json!(Pod::TYPE.kind);
    let metadata = ObjectMeta::deserialize(&body["metadata"]).unwrap_or_default();
    let about = ObjectRef::from_meta(Pod::TYPE.api_version(), Pod::TYPE.kind, &metadata);
    let write = Write::status_of::<Pod>(metadata.key(), body).why("its node is not ready");
    Some(write.on_success(Event::warning("NodeNotReady", "Node is not ready").about(about)))
}
