//! Pods: what runs and where it may run.

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
    /// Containers that were added to look around.
    #[serde(deserialize_with = "null_default")]
    pub ephemeral_containers: Vec<Container>,
    /// What happens to containers that exit.
    pub restart_policy: RestartPolicy,
    /// Labels its node must have.
    #[serde(deserialize_with = "null_default")]
    pub node_selector: Labels,
    /// Where it may and would like to run.
    #[serde(deserialize_with = "null_default")]
    pub affinity: Affinity,
    #[serde(deserialize_with = "null_default")]
    pub tolerations: Vec<Toleration>,
    /// How evenly its like should be spread.
    #[serde(deserialize_with = "null_default")]
    pub topology_spread_constraints: Vec<SpreadConstraint>,
    #[serde(deserialize_with = "null_default")]
    pub volumes: Vec<Volume>,
    pub priority: Option<i32>,
    /// `Never` if it may not push others aside.
    pub preemption_policy: SmolStr,
    /// Whether it uses the network of its node.
    pub host_network: bool,
    /// What its runtime needs besides.
    #[serde(deserialize_with = "null_default")]
    pub overhead: ResourceList,
    /// What the pod as a whole asks for.
    pub resources: Option<Resources>,
    /// What must be lifted before it is scheduled.
    #[serde(deserialize_with = "null_default")]
    pub scheduling_gates: Vec<Named>,
    /// Conditions that others must set before it is ready.
    #[serde(deserialize_with = "null_default")]
    pub readiness_gates: Vec<ReadinessGate>,
    /// How long it may run.
    pub active_deadline_seconds: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Named {
    pub name: SmolStr,
}

/// A condition that others must set.
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
    /// The program, if not the image's.
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
    /// How readiness is found out.
    pub readiness_probe: Option<Probe>,
}

impl Container {
    /// Whether an init container runs beside the others.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy == Some(RestartPolicy::Always)
    }
}

/// A probe, as far as time is concerned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Probe {
    /// Seconds before it is asked first.
    pub initial_delay_seconds: i64,
}

/// A port of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerPort {
    /// The port of the node that it takes; zero for none.
    pub host_port: i32,
    /// The address of the node on which it takes it; empty for all.
    #[serde(rename = "hostIP")]
    pub host_ip: SmolStr,
    /// `TCP` (also when empty), `UDP` or `SCTP`.
    pub protocol: SmolStr,
}

/// A volume, as far as it ties a pod to a node.
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

/// A claim made for one pod; its name follows from pod and volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct EphemeralSource {}

impl Pod {
    /// Whether it has run its course.
    pub fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    pub fn priority(&self) -> i32 {
        self.spec.priority.unwrap_or(0)
    }

    /// The names of the claims it uses, in its own namespace.
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
