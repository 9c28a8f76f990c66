//! Conditions of all kinds in one type. Times that a kind does not have are omitted.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::de::skip;
use crate::time::{self, Timestamp};

pub const TRUE: &str = "True";
pub const FALSE: &str = "False";
pub const UNKNOWN: &str = "Unknown";

/// One entry of `status.conditions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub type_: SmolStr,
    /// `True`, `False` or `Unknown`.
    pub status: SmolStr,
    /// Metav1 conditions have it.
    #[serde(skip_serializing_if = "skip::zero")]
    pub observed_generation: i64,
    /// Conditions of Jobs and pods have it.
    #[serde(with = "time::seconds_opt", skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Timestamp>,
    /// Conditions of nodes have it.
    #[serde(with = "time::seconds_opt", skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Timestamp>,
    /// Conditions of Deployments have it.
    #[serde(with = "time::seconds_opt", skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Timestamp>,
    #[serde(with = "time::seconds_opt", skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub reason: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub message: SmolStr,
}

impl Condition {
    pub fn is_true(&self) -> bool {
        self.status == TRUE
    }

    /// Whether the status is `False`.
    pub fn is_false(&self) -> bool {
        self.status == FALSE
    }
}

pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of this type exists and is `True`.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(Condition::is_true)
}

/// Removes the conditions of this type; returns whether there were any.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.len() != before
}

/// Sets a metav1 condition in place; returns whether anything changed. The transition time changes only with the status.
///
/// Upstream: apimachinery `meta.SetStatusCondition`.
pub fn set(conditions: &mut Vec<Condition>, new: Condition) -> bool {
    let Some(known) = conditions.iter_mut().find(|condition| condition.type_ == new.type_) else {
        conditions.push(new);
        return true;
    };
    let last_transition_time =
        if known.status == new.status { known.last_transition_time } else { new.last_transition_time };
    let merged = Condition { last_transition_time, ..new };
    let changed = *known != merged;
    *known = merged;
    changed
}

/// When the transition time of a replaced condition changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// Only when the status changes, as for Deployments.
    WithStatus,
    /// With every change of status or reason, as for ReplicaSets.
    WithReason,
}

/// Replaces a condition of the older style; returns whether it did. One with the same status and reason stays as it is,
/// whatever its message; a new one is appended.
///
/// Upstream: `deploymentutil.SetDeploymentCondition` and `replicaset.SetCondition`.
pub fn supersede(conditions: &mut Vec<Condition>, mut new: Condition, transition: Transition) -> bool {
    if let Some(known) = find(conditions, &new.type_) {
        if known.status == new.status && known.reason == new.reason {
            return false;
        }
        if known.status == new.status && transition == Transition::WithStatus {
            new.last_transition_time = known.last_transition_time;
        }
    }
    remove(conditions, &new.type_.clone());
    conditions.push(new);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(type_: &str, status: &str, reason: &str, second: i64) -> Condition {
        Condition {
            type_: type_.into(),
            status: status.into(),
            reason: reason.into(),
            last_transition_time: Timestamp::from_second(second).ok(),
            ..Default::default()
        }
    }

    fn show(conditions: &[Condition]) -> String {
        let one = |c: &Condition| {
            let second = c.last_transition_time.map_or(-1, Timestamp::as_second);
            format!("{}={}/{}@{second}", c.type_, c.status, c.reason)
        };
        conditions.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_transition_time_follows_the_status() {
        let mut list = vec![condition("A", TRUE, "x", 1), condition("B", TRUE, "x", 1)];
        assert!(set(&mut list, condition("A", TRUE, "y", 2)));
        assert_eq!(show(&list), "A=True/y@1 B=True/x@1");
        assert!(set(&mut list, condition("A", FALSE, "y", 3)));
        assert!(!set(&mut list, condition("A", FALSE, "y", 4)));
        assert!(set(&mut list, condition("C", UNKNOWN, "z", 5)));
        assert_eq!(show(&list), "A=False/y@3 B=True/x@1 C=Unknown/z@5");
    }

    #[test]
    fn older_conditions_are_replaced_at_the_end() {
        let list = vec![condition("A", TRUE, "x", 1), condition("B", TRUE, "x", 1)];
        #[rustfmt::skip]
        let table = [
            (condition("A", TRUE, "x", 2),  Transition::WithStatus, "A=True/x@1 B=True/x@1"),
            (condition("A", TRUE, "y", 2),  Transition::WithStatus, "B=True/x@1 A=True/y@1"),
            (condition("A", TRUE, "y", 2),  Transition::WithReason, "B=True/x@1 A=True/y@2"),
            (condition("A", FALSE, "x", 2), Transition::WithStatus, "B=True/x@1 A=False/x@2"),
        ];
        for (new, transition, want) in table {
            let mut list = list.clone();
            supersede(&mut list, new, transition);
            assert_eq!(show(&list), want);
        }
        let mut list = list;
        assert!(remove(&mut list, "A") && !remove(&mut list, "A") && is_true(&list, "B"));
    }
}
