//! Pods, by far the most numerous objects. Only what some controller reads is kept; what repeats between pods
//! (labels, containers, tolerations) is shared, and what few pods have is boxed away.
//!
//! A cached pod can therefore not be sent back whole. Controllers patch pods, or read one live before a PUT.

use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer};
use smallvec::SmallVec;
use smol_str::SmolStr;

use crate::de::null_default;
use crate::intern::{self, Interner, Repeats, SharedList};
use crate::taint::Toleration;
use crate::text_enum::text_enum;
use crate::time::{self, CompactTime, Timestamp};
use crate::{Labels, ObjectMeta, RawJson, ResourceList, Resources, meta, resource};

/// A v1 Pod.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Pod {
    /// Metadata with only the annotations of the Kubernetes domains.
    #[serde(deserialize_with = "meta::known_annotations")]
    pub metadata: ObjectMeta,
    /// What runs, and where.
    pub spec: PodSpec,
    /// How it fares.
    pub status: PodStatus,
}

resource!(Pod, "", "v1", "pods", "Pod", namespaced);

text_enum! {
    /// What happens to containers that exit.
    pub enum RestartPolicy else Always {
        /// They are started again.
        Always = "Always",
        /// They are started again unless they succeeded.
        OnFailure = "OnFailure",
        /// They stay as they are.
        Never = "Never",
    }
}

text_enum! {
    /// Where a pod is in its life.
    pub enum Phase else Unknown {
        /// Accepted, not yet running.
        Pending = "Pending",
        /// At least one container runs or restarts.
        Running = "Running",
        /// All containers ended well.
        Succeeded = "Succeeded",
        /// All containers ended, at least one badly.
        Failed = "Failed",
        /// Its node cannot be asked.
        Unknown = "Unknown",
    }
}

text_enum! {
    /// How a pod ranks when its node runs short.
    pub enum QosClass else Unset {
        /// Not said.
        Unset = "",
        /// All it uses is asked for.
        Guaranteed = "Guaranteed",
        /// Some of what it uses is asked for.
        Burstable = "Burstable",
        /// It asks for nothing.
        BestEffort = "BestEffort",
    }
}

text_enum! {
    /// Whether a condition holds.
    pub enum ConditionStatus else Unknown {
        /// Nobody can tell.
        Unknown = "Unknown",
        /// It holds.
        True = "True",
        /// It does not.
        False = "False",
    }
}

/// The spec of a [`Pod`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodSpec {
    /// Where it runs; empty until it is scheduled.
    pub node_name: SmolStr,
    /// As whom it runs.
    pub service_account_name: SmolStr,
    /// Its containers.
    pub containers: SharedList<Container>,
    /// Containers that run before the others, or beside them as sidecars.
    pub init_containers: SharedList<Container>,
    /// Taints it bears.
    pub tolerations: SharedList<Toleration>,
    /// Volumes that storage controllers care for; all other sources are left out.
    pub volumes: Box<[Volume]>,
    /// Rank among pods.
    pub priority: Option<i32>,
    /// What happens to containers that exit.
    pub restart_policy: RestartPolicy,
    /// Whether it uses the network of its node.
    pub host_network: bool,
    /// How long it may take to stop.
    pub termination_grace_period_seconds: Option<i64>,
    rare: Option<Box<RareSpec>>,
}

/// Parts of a pod's spec that most pods do not have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RareSpec {
    /// How long it may run.
    pub active_deadline_seconds: Option<i64>,
    /// What must be lifted before it is scheduled.
    pub scheduling_gates: Box<[Named]>,
    /// Labels its node must have.
    pub node_selector: Labels,
    /// Scheduling rules as served.
    pub affinity: Option<RawJson>,
    /// Its own host name.
    pub hostname: SmolStr,
    /// The service that names its domain.
    pub subdomain: SmolStr,
    /// The name of its rank.
    pub priority_class_name: SmolStr,
    /// Devices it asks for.
    pub resource_claims: Box<[PodResourceClaim]>,
    /// Conditions others must set before it is ready.
    pub readiness_gates: Box<[ReadinessGate]>,
    /// The operating system it needs.
    pub os: Option<Named>,
    /// What the pod as a whole asks for.
    pub resources: Option<Resources>,
    /// What its runtime needs besides.
    pub overhead: ResourceList,
    /// The group it is scheduled with.
    pub pod_group_name: SmolStr,
    /// SELinux and similar settings as served.
    pub security_context: Option<RawJson>,
}

/// A condition that others must set before a pod is ready.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReadinessGate {
    /// The type of the condition.
    #[serde(deserialize_with = "intern::text")]
    pub condition_type: SmolStr,
}

/// Something that has only a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct Named {
    /// The name.
    #[serde(deserialize_with = "intern::text")]
    pub name: SmolStr,
}

/// A claim for devices: one that exists, or one made from a template for this pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodResourceClaim {
    /// What the pod calls it.
    #[serde(deserialize_with = "intern::text")]
    pub name: SmolStr,
    /// The ResourceClaim, if it exists by itself.
    pub resource_claim_name: Option<SmolStr>,
    /// The ResourceClaimTemplate from which one is made.
    pub resource_claim_template_name: Option<SmolStr>,
}

/// A container, as far as controllers look into it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    /// Its name in the pod.
    #[serde(deserialize_with = "intern::text")]
    pub name: SmolStr,
    /// What it runs.
    #[serde(deserialize_with = "intern::text")]
    pub image: SmolStr,
    /// Ports it names.
    #[serde(deserialize_with = "null_default")]
    pub ports: Box<[ContainerPort]>,
    /// What it asks for.
    pub resources: Resources,
    /// `Always` makes an init container a sidecar.
    pub restart_policy: Option<RestartPolicy>,
}

impl Repeats for Container {
    fn table() -> &'static Interner<[Self]> {
        static TABLE: Interner<[Container]> = Interner::new();
        &TABLE
    }
}

/// A port of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerPort {
    /// What services may call it.
    #[serde(deserialize_with = "intern::text")]
    pub name: SmolStr,
    /// Its number.
    pub container_port: i32,
    /// The port of the node it takes; zero for none.
    pub host_port: i32,
    /// `TCP` (also when empty), `UDP` or `SCTP`.
    pub protocol: SmolStr,
}

/// A volume of a source that some controller acts on.
#[derive(Debug, Clone, PartialEq)]
pub struct Volume {
    /// Its name in the pod.
    pub name: SmolStr,
    /// Where its bytes are.
    pub source: VolumeSource,
}

/// The source of a [`Volume`].
#[derive(Debug, Clone, PartialEq)]
pub enum VolumeSource {
    /// A claim in the pod's namespace.
    Claim {
        /// Its name.
        name: SmolStr,
        /// Whether it is mounted read-only.
        read_only: bool,
    },
    /// A claim made for this pod from a template, as served.
    Ephemeral(RawJson),
    /// An inline volume of a CSI driver.
    Csi {
        /// The driver.
        driver: SmolStr,
    },
    /// A network disk given in place: the name of its field (`awsElasticBlockStore`, `iscsi`, …) and its contents.
    Inline(SmolStr, RawJson),
}

/// The status of a [`Pod`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodStatus {
    /// Where it is in its life.
    pub phase: Phase,
    /// What is known about it.
    pub conditions: Box<[PodCondition]>,
    /// Its addresses, at most one per family, the main one first.
    pub pod_ips: SmallVec<[SmolStr; 1]>,
    /// The addresses of its node.
    pub host_ips: SmallVec<[SmolStr; 1]>,
    /// When its node took it up.
    pub start_time: Option<Timestamp>,
    /// How its containers fare.
    pub container_statuses: Box<[ContainerStatus]>,
    /// How its init containers fare.
    pub init_container_statuses: Box<[ContainerStatus]>,
    /// The generation its node has seen.
    pub observed_generation: i64,
    /// How it ranks when its node runs short.
    pub qos_class: QosClass,
    rare: Option<Box<RareStatus>>,
}

/// Parts of a pod's status that most pods do not have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RareStatus {
    /// Why it is in its phase, in a word.
    pub reason: SmolStr,
    /// Why it is in its phase, in a sentence.
    pub message: SmolStr,
    /// The node that is being cleared for it.
    pub nominated_node_name: SmolStr,
    /// The claims made for it from templates.
    pub resource_claim_statuses: Box<[PodResourceClaimStatus]>,
    /// The claim made for its extended resources.
    pub extended_resource_claim: SmolStr,
}

/// Which ResourceClaim was made for an entry of the pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodResourceClaimStatus {
    /// What the pod calls it.
    pub name: SmolStr,
    /// The claim; absent when none is needed.
    pub resource_claim_name: Option<SmolStr>,
}

/// The types of pod conditions that controllers look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodConditionType {
    /// All containers and readiness gates are.
    Ready,
    /// All containers are.
    ContainersReady,
    /// Init containers have finished.
    Initialized,
    /// It has a node.
    PodScheduled,
    /// Sandbox and network are there.
    PodReadyToStartContainers,
    /// It is about to be ended on purpose.
    DisruptionTarget,
    /// The node cannot, or cannot yet, resize it.
    PodResizePending,
    /// Any other.
    Other(Box<SmolStr>),
}

impl PodConditionType {
    /// The word on the wire.
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
    /// What is said.
    pub type_: PodConditionType,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// The generation the statement is about.
    pub observed_generation: i64,
    since: CompactTime,
    /// Reason and message, which most conditions lack.
    why: Option<Box<(SmolStr, SmolStr)>>,
}

impl PodCondition {
    /// Since when its status is what it is.
    pub fn last_transition_time(&self) -> Option<Timestamp> {
        self.since.get()
    }

    /// One word for programs; empty when there is none.
    pub fn reason(&self) -> &str {
        self.why.as_ref().map_or("", |why| &why.0)
    }

    /// A sentence for people; empty when there is none.
    pub fn message(&self) -> &str {
        self.why.as_ref().map_or("", |why| &why.1)
    }
}

/// How a container fares.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ContainerStatus {
    /// The container.
    pub name: SmolStr,
    /// Whether it passes its readiness probe.
    pub ready: bool,
    /// How often it was started again.
    pub restart_count: i32,
    /// What it does now.
    pub state: ContainerState,
    /// What the node has given it; absent while the node has not said.
    pub resources: Option<Arc<ReportedResources>>,
}

/// What a node has given to a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ReportedResources {
    /// In force now.
    pub actual: Resources,
    /// Set aside for it.
    pub allocated: ResourceList,
}

/// What a container does.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum ContainerState {
    /// Nothing is known, which reads as waiting.
    #[default]
    Unset,
    /// It is not started yet.
    Waiting {
        /// Why.
        reason: SmolStr,
    },
    /// It runs.
    Running {
        /// Since when.
        started_at: Option<Timestamp>,
    },
    /// It has ended.
    Terminated(Box<Terminated>),
}

/// How a container ended.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Terminated {
    /// Zero for success.
    pub exit_code: i32,
    /// The signal that ended it.
    pub signal: i32,
    /// One word for programs.
    #[serde(deserialize_with = "intern::text")]
    pub reason: SmolStr,
    /// When it began.
    #[serde(with = "time::seconds_opt")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(with = "time::seconds_opt")]
    pub finished_at: Option<Timestamp>,
}

impl PodSpec {
    /// The parts most pods do not have; all empty for those.
    pub fn rare(&self) -> &RareSpec {
        static NONE: LazyLock<RareSpec> = LazyLock::new(RareSpec::default);
        self.rare.as_deref().unwrap_or(&NONE)
    }

    /// Containers of both lists, those of the init phase first.
    pub fn all_containers(&self) -> impl Iterator<Item = &Container> {
        self.init_containers.iter().chain(self.containers.iter())
    }
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

mod resources;
mod state;
mod wire;

#[cfg(test)]
mod tests;

pub use resources::ResourceOptions;
