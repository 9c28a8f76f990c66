//! A pod's status as a kubelet writes it.

use flyball_api::Timestamp;
use flyball_api::de::null_default;
use flyball_api::time::seconds_opt;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// The status of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Pending`, `Running`, `Succeeded`, `Failed`.
    pub phase: SmolStr,
    #[serde(deserialize_with = "null_default")]
    pub conditions: Vec<Condition>,
    /// Why it is in its phase.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub reason: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub message: SmolStr,
    /// The node on which other pods are being preempted for it.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub nominated_node_name: SmolStr,
    #[serde(rename = "hostIP", skip_serializing_if = "SmolStr::is_empty")]
    pub host_ip: SmolStr,
    #[serde(rename = "hostIPs", deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub host_ips: Vec<HostIp>,
    #[serde(rename = "podIP", skip_serializing_if = "SmolStr::is_empty")]
    pub pod_ip: SmolStr,
    #[serde(rename = "podIPs", deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub pod_ips: Vec<HostIp>,
    /// When the kubelet accepted it.
    #[serde(with = "seconds_opt", skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub init_container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub ephemeral_container_statuses: Vec<ContainerStatus>,
}

/// An address in a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostIp {
    pub ip: SmolStr,
}

/// A condition of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub type_: SmolStr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `True`, `False`, `Unknown`.
    pub status: SmolStr,
    /// `null` removes an older one.
    pub reason: Option<SmolStr>,
    /// `null` removes an older one.
    pub message: Option<SmolStr>,
    #[serde(with = "seconds_opt")]
    pub last_transition_time: Option<Timestamp>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStatus {
    pub name: SmolStr,
    pub state: ContainerState,
    /// Its state before the last restart.
    pub last_state: ContainerState,
    pub ready: bool,
    pub restart_count: i32,
    pub image: SmolStr,
    #[serde(rename = "imageID")]
    pub image_id: SmolStr,
    #[serde(rename = "containerID", skip_serializing_if = "SmolStr::is_empty")]
    pub container_id: SmolStr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<bool>,
}

/// The state of a container: one of these, or none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Running>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminated: Option<Terminated>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waiting {
    /// `ContainerCreating`, `CrashLoopBackOff`, …
    pub reason: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub message: SmolStr,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Running {
    #[serde(with = "seconds_opt")]
    pub started_at: Option<Timestamp>,
}

/// A terminated container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Terminated {
    pub exit_code: i32,
    /// `Completed` or `Error`.
    pub reason: SmolStr,
    #[serde(with = "seconds_opt")]
    pub started_at: Option<Timestamp>,
    #[serde(with = "seconds_opt")]
    pub finished_at: Option<Timestamp>,
    #[serde(rename = "containerID", skip_serializing_if = "SmolStr::is_empty")]
    pub container_id: SmolStr,
}

impl PodStatus {
    /// All containers of every group.
    pub fn all_containers(&self) -> impl Iterator<Item = &ContainerStatus> {
        let first = self.init_container_statuses.iter();
        first.chain(&self.container_statuses).chain(&self.ephemeral_container_statuses)
    }

    /// The condition of this type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Whether the condition of this type is `True`.
    pub fn is_true(&self, type_: &str) -> bool {
        self.condition(type_).is_some_and(|condition| condition.status == "True")
    }
}
