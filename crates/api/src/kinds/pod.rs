//! Pods, by far the most numerous objects. Only the fields that controllers read are kept; parts that repeat between pods
//! (labels, containers, tolerations) are shared, and parts that few pods have are boxed.
//!
//! A cached pod can therefore not be sent back whole. Controllers patch pods, or read one live before a PUT.

mod resources;
mod secrets;
mod state;
mod status;
mod wire;

use std::sync::LazyLock;

use serde::Deserialize;
use smol_str::SmolStr;

use crate::de::null_default;
use crate::intern::{self, Interner, Repeats, SharedList};
use crate::taint::Toleration;
use crate::text_enum::text_enum;
use crate::{Labels, ObjectMeta, RawJson, ResourceList, Resources, meta, resource};

pub use resources::ResourceOptions;
pub use status::{
    ConditionStatus, ContainerState, ContainerStatus, Phase, PodCondition, PodConditionType,
    PodResourceClaimStatus, PodStatus, QosClass, RareStatus, ReportedResources, Terminated,
};

/// A v1 Pod.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Pod {
    /// Metadata with only the annotations of the Kubernetes domains.
    #[serde(deserialize_with = "meta::known_annotations")]
    pub metadata: ObjectMeta,
    pub spec: PodSpec,
    pub status: PodStatus,
}

resource!(Pod, "", "v1", "pods", "Pod", namespaced);

text_enum! {
    pub enum RestartPolicy else Always {
        Always = "Always",
        /// They are started again unless they succeeded.
        OnFailure = "OnFailure",
        /// They stay as they are.
        Never = "Never",
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodSpec {
    /// Where it runs; empty until it is scheduled.
    pub node_name: SmolStr,
    pub service_account_name: SmolStr,
    pub containers: SharedList<Container>,
    pub init_containers: SharedList<Container>,
    pub tolerations: SharedList<Toleration>,
    /// Only volumes with sources that storage controllers handle.
    pub volumes: Box<[Volume]>,
    /// The secrets that volumes, image pulls and ephemeral containers refer to.
    pub secrets: SharedList<SmolStr>,
    pub priority: Option<i32>,
    pub restart_policy: RestartPolicy,
    pub host_network: bool,
    pub termination_grace_period_seconds: Option<i64>,
    rare: Option<Box<RareSpec>>,
}

/// Parts of a pod's spec that most pods do not have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RareSpec {
    pub active_deadline_seconds: Option<i64>,
    pub scheduling_gates: Box<[Named]>,
    pub node_selector: Labels,
    pub affinity: Option<RawJson>,
    pub hostname: SmolStr,
    pub subdomain: SmolStr,
    pub priority_class_name: SmolStr,
    pub resource_claims: Box<[PodResourceClaim]>,
    pub readiness_gates: Box<[ReadinessGate]>,
    pub os: Option<Named>,
    pub resources: Option<Resources>,
    pub overhead: ResourceList,
    pub pod_group_name: SmolStr,
    /// SELinux and similar settings as served.
    pub security_context: Option<RawJson>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReadinessGate {
    #[serde(deserialize_with = "intern::text")]
    pub condition_type: SmolStr,
}

/// Something that has only a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct Named {
    #[serde(deserialize_with = "intern::text")]
    pub name: SmolStr,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodResourceClaim {
    #[serde(deserialize_with = "intern::text")]
    pub name: SmolStr,
    pub resource_claim_name: Option<SmolStr>,
    pub resource_claim_template_name: Option<SmolStr>,
}

/// A container with the fields that controllers read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "wire::ContainerWire")]
pub struct Container {
    pub name: SmolStr,
    pub image: SmolStr,
    pub ports: Box<[ContainerPort]>,
    pub resources: Resources,
    /// `Always` makes an init container a sidecar.
    pub restart_policy: Option<RestartPolicy>,
    /// The secrets that the environment refers to.
    pub secrets: Box<[SmolStr]>,
}

impl Repeats for Container {
    fn table() -> &'static Interner<[Self]> {
        static TABLE: Interner<[Container]> = Interner::new();
        &TABLE
    }
}

impl Repeats for SmolStr {
    fn table() -> &'static Interner<[Self]> {
        static TABLE: Interner<[SmolStr]> = Interner::new();
        &TABLE
    }
}

/// A port of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerPort {
    #[serde(deserialize_with = "intern::text")]
    pub name: SmolStr,
    pub container_port: i32,
    /// The port of the node it takes; zero for none.
    pub host_port: i32,
    /// `TCP` (also when empty), `UDP` or `SCTP`.
    pub protocol: SmolStr,
}

/// A volume of a source that some controller acts on.
#[derive(Debug, Clone, PartialEq)]
pub struct Volume {
    pub name: SmolStr,
    pub source: VolumeSource,
}

/// The source of a [`Volume`].
#[derive(Debug, Clone, PartialEq)]
pub enum VolumeSource {
    /// A claim in the pod's namespace.
    Claim {
        name: SmolStr,
        /// Whether it is mounted read-only.
        read_only: bool,
    },
    /// An ephemeral volume: the claim template, as served.
    Ephemeral(RawJson),
    /// An inline volume of a CSI driver.
    Csi { driver: SmolStr },
    /// An inline network disk: the name of its field (`awsElasticBlockStore`, `iscsi`, …) and its contents.
    Inline(SmolStr, RawJson),
}

impl PodSpec {
    /// The parts most pods do not have; all empty for those.
    pub fn rare(&self) -> &RareSpec {
        static NONE: LazyLock<RareSpec> = LazyLock::new(RareSpec::default);
        self.rare.as_deref().unwrap_or(&NONE)
    }

    /// All secrets that it refers to, possibly with duplicates.
    pub fn secret_names(&self) -> impl Iterator<Item = &SmolStr> {
        self.secrets.iter().chain(self.all_containers().flat_map(|container| container.secrets.iter()))
    }

    /// Containers of both lists, those of the init phase first.
    pub fn all_containers(&self) -> impl Iterator<Item = &Container> {
        self.init_containers.iter().chain(self.containers.iter())
    }
}

#[cfg(test)]
mod tests;
