//! Which taints a node should have, by what it reports. Pure.

use flyball_api::taint::Taint;
use flyball_api::{Node, Timestamp};
use serde_json::{Value, json};

use super::status::{Ready, readiness};

/// The node says that it is not ready.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The node says nothing any more.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

pub const NO_EXECUTE: &str = "NoExecute";
pub const NO_SCHEDULE: &str = "NoSchedule";

/// Conditions, the status in which each speaks against a node, and the taint that says so.
const CONDITIONS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// Taints of one effect that come and go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swap {
    pub effect: &'static str,
    pub add: Vec<&'static str>,
    pub remove: Vec<&'static str>,
}

/// Brings the `NoSchedule` taints in line with a node's conditions. Taints of other people are left alone.
pub fn no_schedule(node: &Node) -> Swap {
    let of = |condition: &flyball_api::condition::Condition| {
        let row = CONDITIONS
            .iter()
            .find(|(type_, status, _)| condition.type_ == *type_ && condition.status == *status)?;
        Some(row.2)
    };
    let cordoned = node.spec.unschedulable.then_some(UNSCHEDULABLE);
    let wanted: Vec<&'static str> = node.status.conditions.iter().filter_map(of).chain(cordoned).collect();
    let ours = CONDITIONS.iter().map(|row| row.2).chain([UNSCHEDULABLE]);
    let remove = ours.filter(|key| has(node, key, NO_SCHEDULE) && !wanted.contains(key)).collect();
    let add = wanted.iter().copied().filter(|key| !has(node, key, NO_SCHEDULE)).collect();
    Swap { effect: NO_SCHEDULE, add, remove }
}

/// The one `NoExecute` taint of a node that is not ready, in place of its opposite. Nothing for one that is ready, or
/// never said.
pub fn no_execute(node: &Node) -> Swap {
    let (wanted, opposite) = match readiness(node) {
        Some(Ready::False) => (NOT_READY, UNREACHABLE),
        Some(Ready::Unknown) => (UNREACHABLE, NOT_READY),
        Some(Ready::True) | None => return Swap { effect: NO_EXECUTE, ..Swap::default() },
    };
    Swap { effect: NO_EXECUTE, add: vec![wanted], remove: vec![opposite] }
}

/// Takes away what [`no_execute`] may have set.
pub fn welcome(_: &Node) -> Swap {
    Swap { effect: NO_EXECUTE, add: vec![], remove: vec![UNREACHABLE, NOT_READY] }
}

/// Whether a node has a taint.
pub fn has(node: &Node, key: &str, effect: &str) -> bool {
    node.spec.taints.iter().any(|taint| taint.key == key && taint.effect == effect)
}

/// Whether pods are, or soon will be, evicted from a node on our account.
pub fn is_evicted(node: &Node) -> bool {
    has(node, NOT_READY, NO_EXECUTE) || has(node, UNREACHABLE, NO_EXECUTE)
}

impl Swap {
    /// The taints of a node afterwards; `None` if that changes nothing.
    pub fn apply(&self, node: &Node, now: Timestamp) -> Option<Vec<Taint>> {
        let goes =
            |taint: &Taint| taint.effect == self.effect && self.remove.iter().any(|key| taint.key == *key);
        let new = self.add.iter().filter(|key| !has(node, key, self.effect));
        let mut taints: Vec<Taint> = node.spec.taints.iter().filter(|taint| !goes(taint)).cloned().collect();
        let left = taints.len();
        taints.extend(new.map(|key| Taint {
            key: (*key).into(),
            effect: self.effect.into(),
            time_added: Some(now),
            ..Taint::default()
        }));
        (left != node.spec.taints.len() || left != taints.len()).then_some(taints)
    }

    /// The patch that does it. The list is replaced as a whole, so it must still be the one that was read.
    pub fn patch(&self, node: &Node, now: Timestamp) -> Option<Value> {
        let taints = self.apply(node, now)?;
        let taints = if taints.is_empty() { Value::Null } else { json!(taints) };
        let version = node.metadata.resource_version.to_string();
        Some(json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}}))
    }
}
