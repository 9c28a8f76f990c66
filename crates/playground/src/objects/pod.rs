//! Pods, as the scheduler and the nodes read them.

use flyball_api::de::null_default;
use flyball_api::pod::RestartPolicy;
use flyball_api::taint::Toleration;
use flyball_api::{Labels, ObjectMeta, ResourceList, Resources, resource};
use serde::Deserialize;
use smol_str::SmolStr;

use super::placement::{Affinity, SpreadConstraint};
use super::status::PodStatus;

/// A v1 Pod.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Pod {
    pub metadata: ObjectMeta,
    pub spec: PodSpec,
    pub status: PodStatus,
}

resource!(Pod, "", "v1", "pods", "Pod", namespaced);

/// The spec of a [`Pod`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    /// Where it runs; empty until it is scheduled.
    pub node_name: SmolStr,
    pub scheduler_name: SmolStr,
    #[serde(deserialize_with = "null_default")]
    pub containers: Vec<Container>,
    /// Containers that run before the others, or beside them as sidecars.
    #[serde(deserialize_with = "null_default")]
    pub init_containers: Vec<Container>,
    #[serde(deserialize_with = "null_default")]
    pub ephemeral_containers: Vec<Container>,
    pub restart_policy: RestartPolicy,
    #[serde(deserialize_with = "null_default")]
    pub node_selector: Labels,
    #[serde(deserialize_with = "null_default")]
    pub affinity: Affinity,
    #[serde(deserialize_with = "null_default")]
    pub tolerations: Vec<Toleration>,
    #[serde(deserialize_with = "null_default")]
    pub topology_spread_constraints: Vec<SpreadConstraint>,
    #[serde(deserialize_with = "null_default")]
    pub volumes: Vec<Volume>,
    pub priority: Option<i32>,
    /// `Never` if it may not preempt others.
    pub preemption_policy: SmolStr,
    /// Whether it uses the network of its node.
    pub host_network: bool,
    /// Resources of its runtime, beside its containers'.
    #[serde(deserialize_with = "null_default")]
    pub overhead: ResourceList,
    /// Resources of the pod as a whole.
    pub resources: Option<Resources>,
    /// Gates that must be removed before it is scheduled.
    #[serde(deserialize_with = "null_default")]
    pub scheduling_gates: Vec<Named>,
    /// Further conditions that must be true before it is ready.
    #[serde(deserialize_with = "null_default")]
    pub readiness_gates: Vec<ReadinessGate>,
    pub active_deadline_seconds: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Named {
    pub name: SmolStr,
}

/// A condition that readiness depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReadinessGate {
    pub condition_type: SmolStr,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    /// Its name in the pod.
    pub name: SmolStr,
    pub image: SmolStr,
    /// The command, if not the image's.
    #[serde(deserialize_with = "null_default")]
    pub command: Vec<String>,
    #[serde(deserialize_with = "null_default")]
    pub args: Vec<String>,
    #[serde(deserialize_with = "null_default")]
    pub ports: Vec<ContainerPort>,
    #[serde(deserialize_with = "null_default")]
    pub resources: Resources,
    /// `Always` makes an init container a sidecar.
    pub restart_policy: Option<RestartPolicy>,
    pub readiness_probe: Option<Probe>,
    pub liveness_probe: Option<Probe>,
    pub startup_probe: Option<Probe>,
}

impl Container {
    /// Whether this init container is a sidecar.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy == Some(RestartPolicy::Always)
    }
}

/// A probe: its timing, and its command if it runs one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Probe {
    /// Seconds before the first probe.
    pub initial_delay_seconds: u32,
    pub period_seconds: u32,
    /// After how many failures in a row it gives up.
    pub failure_threshold: u32,
    pub exec: Option<ExecProbe>,
}

impl Default for Probe {
    fn default() -> Self {
        Self { initial_delay_seconds: 0, period_seconds: 10, failure_threshold: 3, exec: None }
    }
}

/// A probe that runs a command in the container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ExecProbe {
    #[serde(deserialize_with = "null_default")]
    pub command: Vec<String>,
}

/// A port of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerPort {
    /// The port on the node; zero for none.
    pub host_port: i32,
    /// The address on the node; empty for all.
    #[serde(rename = "hostIP")]
    pub host_ip: SmolStr,
    /// `TCP` (also when empty), `UDP` or `SCTP`.
    pub protocol: SmolStr,
}

/// A volume, as far as it limits the choice of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Volume {
    /// Its name in the pod.
    pub name: SmolStr,
    /// A claim in the pod's namespace.
    pub persistent_volume_claim: Option<ClaimSource>,
    /// A claim made for this pod.
    pub ephemeral: Option<EphemeralSource>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimSource {
    pub claim_name: SmolStr,
}

/// An ephemeral claim; its name follows from pod and volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct EphemeralSource {}

impl Pod {
    /// Whether it has succeeded or failed.
    pub fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    pub fn priority(&self) -> i32 {
        self.spec.priority.unwrap_or(0)
    }

    /// The names of its claims, in its own namespace.
    pub fn claims(&self) -> impl Iterator<Item = SmolStr> {
        self.spec.volumes.iter().filter_map(|volume| {
            match (&volume.persistent_volume_claim, &volume.ephemeral) {
                (Some(claim), _) => Some(claim.claim_name.clone()),
                (None, Some(_)) => Some(smol_str::format_smolstr!("{}-{}", self.metadata.name, volume.name)),
                (None, None) => None,
            }
        })
    }
}
