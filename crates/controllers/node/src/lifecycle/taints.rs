//! Which taints a node should have, by its conditions. Pure.

use flyball_api::taint::Taint;
use flyball_api::{Node, Timestamp};
use flyball_client::Patch;
use flyball_runtime::{ErrorKinds, Write};
use serde_json::{Value, json};

use super::status::{Ready, readiness};

pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The node has stopped reporting.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

pub const NO_EXECUTE: &str = "NoExecute";
pub const NO_SCHEDULE: &str = "NoSchedule";

/// Conditions, the status in which each is a problem, and the taint for it.
const CONDITIONS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// Taints of one effect to add and to remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaintChange {
    pub effect: &'static str,
    pub add: Vec<&'static str>,
    pub remove: Vec<&'static str>,
}

/// The `NoSchedule` taints that match the conditions of the node. Taints that other components set are not changed.
pub fn no_schedule(node: &Node) -> TaintChange {
    let taint_for = |condition: &flyball_api::condition::Condition| {
        let row = CONDITIONS
            .iter()
            .find(|(type_, status, _)| condition.type_ == *type_ && condition.status == *status)?;
        Some(row.2)
    };
    let cordoned = node.spec.unschedulable.then_some(UNSCHEDULABLE);
    let desired: Vec<&'static str> =
        node.status.conditions.iter().filter_map(taint_for).chain(cordoned).collect();
    let ours = CONDITIONS.iter().map(|row| row.2).chain([UNSCHEDULABLE]);
    let remove = ours.filter(|key| has(node, key, NO_SCHEDULE) && !desired.contains(key)).collect();
    let add = desired.iter().copied().filter(|key| !has(node, key, NO_SCHEDULE)).collect();
    TaintChange { effect: NO_SCHEDULE, add, remove }
}

/// Sets the `NoExecute` taint `not-ready` or `unreachable` and removes the other one. No change for a node that is ready or
/// has never reported.
pub fn no_execute(node: &Node) -> TaintChange {
    let (add, remove) = match readiness(node) {
        Some(Ready::False) => (NOT_READY, UNREACHABLE),
        Some(Ready::Unknown) => (UNREACHABLE, NOT_READY),
        Some(Ready::True) | None => return TaintChange { effect: NO_EXECUTE, ..TaintChange::default() },
    };
    TaintChange { effect: NO_EXECUTE, add: vec![add], remove: vec![remove] }
}

/// Removes what [`no_execute`] may have added.
pub fn clear_no_execute(_: &Node) -> TaintChange {
    TaintChange { effect: NO_EXECUTE, add: vec![], remove: vec![UNREACHABLE, NOT_READY] }
}

pub fn has(node: &Node, key: &str, effect: &str) -> bool {
    node.spec.taints.iter().any(|taint| taint.key == key && taint.effect == effect)
}

/// Whether a node has a taint of this controller that evicts pods.
pub fn has_no_execute(node: &Node) -> bool {
    has(node, NOT_READY, NO_EXECUTE) || has(node, UNREACHABLE, NO_EXECUTE)
}

impl TaintChange {
    /// The taints of a node with this change; `None` if it has no effect.
    pub fn apply(&self, node: &Node, now: Timestamp) -> Option<Vec<Taint>> {
        let is_removed =
            |taint: &Taint| taint.effect == self.effect && self.remove.iter().any(|key| taint.key == *key);
        let new = self.add.iter().filter(|key| !has(node, key, self.effect));
        let mut taints: Vec<Taint> =
            node.spec.taints.iter().filter(|taint| !is_removed(taint)).cloned().collect();
        let kept = taints.len();
        taints.extend(new.map(|key| Taint {
            key: (*key).into(),
            effect: self.effect.into(),
            time_added: Some(now),
            ..Taint::default()
        }));
        (kept != node.spec.taints.len() || kept != taints.len()).then_some(taints)
    }

    /// The patch for this change. It replaces the whole list of taints, so the resourceVersion is a precondition.
    pub fn patch(&self, node: &Node, now: Timestamp) -> Option<Value> {
        let taints = self.apply(node, now)?;
        let taints = if taints.is_empty() { Value::Null } else { json!(taints) };
        let version = node.metadata.resource_version.to_string();
        Some(json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}}))
    }
}

/// The write that changes the taints of a node; `None` if there is nothing to change.
pub fn write(
    node: &Node,
    change: impl Fn(&Node) -> TaintChange + Send + Sync + 'static,
    why: &str,
    now: Timestamp,
) -> Option<Write> {
    let write = Write::patch_retry_on_conflict(node, move |node| {
        change(node).patch(node, now).map(Patch::Strategic)
    })?;
    Some(write.why(why).ignore(ErrorKinds::NOT_FOUND))
}

/// The write that sets the `NoExecute` taint, which evicts pods, on a node that is not ready. `None` if the cache shows it as ready:
/// if the cache is stale, the next check adds the node to the queue again.
pub fn evict(node: &Node, now: Timestamp) -> Option<Write> {
    let why = match readiness(node)? {
        Ready::False => "the node reports that it is not ready",
        Ready::Unknown => "the node has stopped reporting",
        Ready::True => return None,
    };
    write(node, no_execute, why, now)
}
