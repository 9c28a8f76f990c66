//! Conditions of all kinds in one shape: the times a kind does not have are left out on the wire.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::de::skip;
use crate::time::{self, Timestamp};

/// The word for a condition that holds.
pub const TRUE: &str = "True";
/// The word for a condition that does not hold.
pub const FALSE: &str = "False";
/// The word for a condition nobody can tell.
pub const UNKNOWN: &str = "Unknown";

/// One entry of `status.conditions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// What is said.
    #[serde(rename = "type")]
    pub type_: SmolStr,
    /// `True`, `False` or `Unknown`.
    pub status: SmolStr,
    /// The generation the statement is about (metav1 conditions).
    #[serde(skip_serializing_if = "skip::zero")]
    pub observed_generation: i64,
    /// When it was last looked at (Jobs and pods).
    #[serde(with = "time::seconds_opt", skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Timestamp>,
    /// When a node last reported it.
    #[serde(with = "time::seconds_opt", skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Timestamp>,
    /// When anything in it changed (Deployments).
    #[serde(with = "time::seconds_opt", skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Timestamp>,
    /// When the status changed.
    #[serde(with = "time::seconds_opt", skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
    /// One word for programs.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub reason: SmolStr,
    /// A sentence for people.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub message: SmolStr,
}

impl Condition {
    /// Whether it holds.
    pub fn is_true(&self) -> bool {
        self.status == TRUE
    }

    /// Whether it is known not to hold.
    pub fn is_false(&self) -> bool {
        self.status == FALSE
    }
}
