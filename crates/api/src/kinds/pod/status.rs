//! The status of a pod: phase, conditions, addresses and container states.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use smallvec::SmallVec;
use smol_str::SmolStr;

use crate::text_enum::text_enum;
use crate::time::{self, CompactTime, Timestamp};
use crate::{ResourceList, Resources, intern};

text_enum! {
    pub enum Phase else Unknown {
        Pending = "Pending",
        /// At least one container runs or restarts.
        Running = "Running",
        Succeeded = "Succeeded",
        /// All containers terminated, at least one with a failure.
        Failed = "Failed",
        /// Its node does not respond.
        Unknown = "Unknown",
    }
}

text_enum! {
    pub enum QosClass else Unset {
        Unset = "",
        /// Requests equal limits.
        Guaranteed = "Guaranteed",
        /// Some resources have requests.
        Burstable = "Burstable",
        BestEffort = "BestEffort",
    }
}

text_enum! {
    pub enum ConditionStatus else Unknown {
        Unknown = "Unknown",
        True = "True",
        False = "False",
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodStatus {
    pub phase: Phase,
    pub conditions: Box<[PodCondition]>,
    /// Its addresses, at most one per family, the main one first.
    pub pod_ips: SmallVec<[SmolStr; 1]>,
    pub host_ips: SmallVec<[SmolStr; 1]>,
    pub start_time: Option<Timestamp>,
    pub container_statuses: Box<[ContainerStatus]>,
    pub init_container_statuses: Box<[ContainerStatus]>,
    /// The generation its node has seen.
    pub observed_generation: i64,
    pub qos_class: QosClass,
    pub(super) rare: Option<Box<RareStatus>>,
}

/// Parts of a pod's status that most pods do not have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RareStatus {
    pub reason: SmolStr,
    pub message: SmolStr,
    pub nominated_node_name: SmolStr,
    pub resource_claim_statuses: Box<[PodResourceClaimStatus]>,
    pub extended_resource_claim: SmolStr,
    pub ephemeral_container_statuses: Box<[ContainerStatus]>,
}

/// The ResourceClaim that was created for an entry of the pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodResourceClaimStatus {
    pub name: SmolStr,
    /// The claim; absent when none is needed.
    pub resource_claim_name: Option<SmolStr>,
}

/// The types of pod conditions that controllers look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodConditionType {
    /// All containers and readiness gates are.
    Ready,
    ContainersReady,
    Initialized,
    PodScheduled,
    /// Sandbox and network are set up.
    PodReadyToStartContainers,
    /// It is about to be terminated.
    DisruptionTarget,
    /// The node cannot, or cannot yet, resize it.
    PodResizePending,
    Other(Box<SmolStr>),
}

impl PodConditionType {
    /// The string in JSON.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Ready => "Ready",
            Self::ContainersReady => "ContainersReady",
            Self::Initialized => "Initialized",
            Self::PodScheduled => "PodScheduled",
            Self::PodReadyToStartContainers => "PodReadyToStartContainers",
            Self::DisruptionTarget => "DisruptionTarget",
            Self::PodResizePending => "PodResizePending",
            Self::Other(text) => text,
        }
    }
}

impl From<&str> for PodConditionType {
    fn from(text: &str) -> Self {
        match text {
            "Ready" => Self::Ready,
            "ContainersReady" => Self::ContainersReady,
            "Initialized" => Self::Initialized,
            "PodScheduled" => Self::PodScheduled,
            "PodReadyToStartContainers" => Self::PodReadyToStartContainers,
            "DisruptionTarget" => Self::DisruptionTarget,
            "PodResizePending" => Self::PodResizePending,
            other => Self::Other(Box::new(intern::shared_str(other))),
        }
    }
}

/// A condition of a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct PodCondition {
    pub type_: PodConditionType,
    pub status: ConditionStatus,
    pub observed_generation: i64,
    pub(super) since: CompactTime,
    /// Reason and message, which most conditions lack.
    pub(super) why: Option<Box<(SmolStr, SmolStr)>>,
}

impl PodCondition {
    pub fn last_transition_time(&self) -> Option<Timestamp> {
        self.since.get()
    }

    /// Empty if there is none.
    pub fn reason(&self) -> &str {
        self.why.as_ref().map_or("", |why| &why.0)
    }

    /// A sentence for people; empty when there is none.
    pub fn message(&self) -> &str {
        self.why.as_ref().map_or("", |why| &why.1)
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ContainerStatus {
    pub name: SmolStr,
    pub ready: bool,
    pub restart_count: i32,
    pub state: ContainerState,
    /// The actual resources; absent until the node reports them.
    pub resources: Option<Arc<ReportedResources>>,
}

/// The actual resources of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ReportedResources {
    pub actual: Resources,
    pub allocated: ResourceList,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub enum ContainerState {
    /// Unknown, which counts as waiting.
    #[default]
    Unset,
    /// It is not started yet.
    Waiting {
        reason: SmolStr,
    },
    Running {
        started_at: Option<Timestamp>,
    },
    Terminated(Box<Terminated>),
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Terminated {
    pub exit_code: i32,
    pub signal: i32,
    #[serde(deserialize_with = "intern::text")]
    pub reason: SmolStr,
    #[serde(with = "time::seconds_opt")]
    pub started_at: Option<Timestamp>,
    #[serde(with = "time::seconds_opt")]
    pub finished_at: Option<Timestamp>,
}

impl PodStatus {
    /// The parts most pods do not have; all empty for those.
    pub fn rare(&self) -> &RareStatus {
        static NONE: LazyLock<RareStatus> = LazyLock::new(RareStatus::default);
        self.rare.as_deref().unwrap_or(&NONE)
    }

    /// Why it is in its phase, in a word.
    pub fn reason(&self) -> &str {
        &self.rare().reason
    }

    /// The main address; empty when it has none yet.
    pub fn pod_ip(&self) -> &str {
        self.pod_ips.first().map_or("", |ip| ip)
    }

    /// The main address of its node; empty when not known.
    pub fn host_ip(&self) -> &str {
        self.host_ips.first().map_or("", |ip| ip)
    }

    /// The condition of this type.
    pub fn condition(&self, type_: &PodConditionType) -> Option<&PodCondition> {
        self.conditions.iter().find(|condition| condition.type_ == *type_)
    }
}
