//! The status of a lost node, and of the pods on it. Pure.

use flyball_api::condition::{Condition, FALSE, TRUE, UNKNOWN};
use flyball_api::time::format_seconds;
use flyball_api::{Node, Timestamp};
use serde_json::{Value, json};

/// Conditions that the kubelet sets. `NetworkUnavailable` is set by the control plane itself.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The status of a node's `Ready` condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    True,
    False,
    Unknown,
}

/// Whether a node is ready; `None` if it has never reported.
pub fn readiness(node: &Node) -> Option<Ready> {
    node.condition("Ready").map(|ready| match ready.status.as_str() {
        TRUE => Ready::True,
        FALSE => Ready::False,
        _ => Ready::Unknown,
    })
}

/// The conditions of a lost node; `None` if its `Ready` is `Unknown` already.
pub fn unknown_conditions(node: &Node, now: Timestamp) -> Option<Vec<Condition>> {
    if readiness(node) == Some(Ready::Unknown) {
        return None;
    }
    let mut conditions = node.status.conditions.to_vec();
    for type_ in REPORTED {
        match conditions.iter_mut().find(|condition| condition.type_ == type_) {
            None => conditions.push(Condition {
                type_: type_.into(),
                status: UNKNOWN.into(),
                reason: "NodeStatusNeverUpdated".into(),
                message: "Kubelet never posted node status.".into(),
                last_heartbeat_time: node.metadata.creation_timestamp,
                last_transition_time: Some(now),
                ..Condition::default()
            }),
            Some(condition) if condition.status != UNKNOWN => {
                condition.status = UNKNOWN.into();
                condition.reason = "NodeStatusUnknown".into();
                condition.message = "Kubelet stopped posting node status.".into();
                condition.last_transition_time = Some(now);
            }
            Some(_) => {}
        }
    }
    Some(conditions)
}

/// The node as the server sent it, with other conditions.
pub fn with_conditions(mut live: Value, conditions: &[Condition]) -> Value {
    remove_managed_fields(&mut live);
    live["status"]["conditions"] = json!(conditions);
    live
}

/// The pod as the server sent it, with `Ready` set to false; `None` if it is already, or is missing.
pub fn not_ready(live: &Value, now: Timestamp) -> Option<Value> {
    let is_ready = |condition: &Value| condition["type"] == "Ready";
    let at = live["status"]["conditions"].as_array()?.iter().position(is_ready)?;
    if live["status"]["conditions"][at]["status"] == FALSE {
        return None;
    }
    let mut pod = live.clone();
    let ready = &mut pod["status"]["conditions"][at];
    ready["status"] = json!(FALSE);
    ready["lastTransitionTime"] = json!(format_seconds(now));
    remove_managed_fields(&mut pod);
    Some(pod)
}

/// The server keeps its own.
fn remove_managed_fields(live: &mut Value) {
    if let Some(metadata) = live.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}
