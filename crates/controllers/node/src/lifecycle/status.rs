//! What is written about a node that is lost, and about the pods on it. Pure.

use flyball_api::condition::{Condition, FALSE, TRUE, UNKNOWN};
use flyball_api::time::format_seconds;
use flyball_api::{Node, Timestamp};
use serde_json::{Value, json};

/// Conditions that only the kubelet knows. `NetworkUnavailable` is set by the control plane itself.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Whether a node is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    True,
    /// It says that it is not.
    False,
    Unknown,
}

/// Whether a node is ready; `None` if that was never said.
pub fn readiness(node: &Node) -> Option<Ready> {
    node.condition("Ready").map(|ready| match ready.status.as_str() {
        TRUE => Ready::True,
        FALSE => Ready::False,
        _ => Ready::Unknown,
    })
}

/// The conditions of a node that has been silent for too long; `None` if its `Ready` says so already.
pub fn lost(node: &Node, now: Timestamp) -> Option<Vec<Condition>> {
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

/// The node as the server sent it, with other conditions, to be sent back.
pub fn with_conditions(mut live: Value, conditions: &[Condition]) -> Value {
    forget_managers(&mut live);
    live["status"]["conditions"] = json!(conditions);
    live
}

/// The pod as the server sent it, to be sent back as not ready; `None` if it is not said to be ready.
pub fn unready(mut live: Value, now: Timestamp) -> Option<Value> {
    let conditions = live.pointer_mut("/status/conditions")?.as_array_mut()?;
    let ready = conditions.iter_mut().find(|condition| condition["type"] == "Ready")?;
    if ready["status"] == FALSE {
        return None;
    }
    ready["status"] = json!(FALSE);
    ready["lastTransitionTime"] = json!(format_seconds(now));
    forget_managers(&mut live);
    Some(live)
}

/// The server keeps its own record of who manages which field.
fn forget_managers(live: &mut Value) {
    if let Some(metadata) = live.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}
