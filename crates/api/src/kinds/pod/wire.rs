//! Decoding of pods: structs with the fields of the API, converted to the slim types.

use serde::Deserializer;
use smallvec::SmallVec;

use super::secrets::{EnvFromWire, EnvWire, ProjectedWire, SecretRefWire, SecretWire, named_in};
use super::*;
use crate::time::{self, Timestamp};

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecWire {
    #[serde(deserialize_with = "intern::text")]
    node_name: SmolStr,
    #[serde(deserialize_with = "intern::text")]
    service_account_name: SmolStr,
    containers: SharedList<Container>,
    init_containers: SharedList<Container>,
    #[serde(deserialize_with = "null_default")]
    ephemeral_containers: Vec<Container>,
    #[serde(deserialize_with = "null_default")]
    image_pull_secrets: Vec<Named>,
    tolerations: SharedList<Toleration>,
    #[serde(deserialize_with = "null_default")]
    volumes: Vec<VolumeWire>,
    priority: Option<i32>,
    restart_policy: RestartPolicy,
    host_network: bool,
    termination_grace_period_seconds: Option<i64>,
    active_deadline_seconds: Option<i64>,
    #[serde(deserialize_with = "null_default")]
    scheduling_gates: Box<[Named]>,
    node_selector: Labels,
    affinity: Option<RawJson>,
    hostname: SmolStr,
    #[serde(deserialize_with = "intern::text")]
    subdomain: SmolStr,
    #[serde(deserialize_with = "intern::text")]
    priority_class_name: SmolStr,
    #[serde(deserialize_with = "null_default")]
    resource_claims: Box<[PodResourceClaim]>,
    #[serde(deserialize_with = "null_default")]
    readiness_gates: Box<[ReadinessGate]>,
    os: Option<Named>,
    resources: Option<Resources>,
    overhead: ResourceList,
    scheduling_group: Option<SchedulingGroupWire>,
    security_context: Option<RawJson>,
}

#[derive(Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SchedulingGroupWire {
    #[serde(deserialize_with = "intern::text")]
    pod_group_name: SmolStr,
}

impl SpecWire {
    /// The secrets that are referred to outside of the containers that are kept, each once.
    fn secrets(&self) -> SharedList<SmolStr> {
        let pulls = self.image_pull_secrets.iter().map(|secret| secret.name.clone());
        let volumes = self.volumes.iter().flat_map(VolumeWire::secrets);
        let ephemeral = self.ephemeral_containers.iter().flat_map(|container| container.secrets.to_vec());
        let mut names: Vec<SmolStr> =
            pulls.chain(volumes).chain(ephemeral).filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        names.dedup();
        names.into()
    }
}

impl<'de> Deserialize<'de> for PodSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = SpecWire::deserialize(deserializer)?;
        let secrets = wire.secrets();
        let rare = RareSpec {
            active_deadline_seconds: wire.active_deadline_seconds,
            scheduling_gates: wire.scheduling_gates,
            node_selector: wire.node_selector,
            affinity: wire.affinity,
            hostname: wire.hostname,
            subdomain: wire.subdomain,
            priority_class_name: wire.priority_class_name,
            resource_claims: wire.resource_claims,
            readiness_gates: wire.readiness_gates,
            os: wire.os,
            resources: wire.resources,
            overhead: wire.overhead,
            pod_group_name: wire.scheduling_group.unwrap_or_default().pod_group_name,
            // The server sets a default.
            security_context: wire.security_context.filter(|context| context.as_str() != "{}"),
        };
        Ok(Self {
            node_name: wire.node_name,
            service_account_name: wire.service_account_name,
            containers: wire.containers,
            init_containers: wire.init_containers,
            tolerations: wire.tolerations,
            volumes: wire.volumes.into_iter().filter_map(VolumeWire::relevant).collect(),
            secrets,
            priority: wire.priority,
            restart_policy: wire.restart_policy,
            host_network: wire.host_network,
            termination_grace_period_seconds: wire.termination_grace_period_seconds,
            rare: boxed_unless_default(rare),
        })
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ContainerWire {
    #[serde(deserialize_with = "intern::text")]
    name: SmolStr,
    #[serde(deserialize_with = "intern::text")]
    image: SmolStr,
    #[serde(deserialize_with = "null_default")]
    ports: Box<[ContainerPort]>,
    resources: Resources,
    restart_policy: Option<RestartPolicy>,
    #[serde(deserialize_with = "null_default")]
    env: Vec<EnvWire>,
    #[serde(deserialize_with = "null_default")]
    env_from: Vec<EnvFromWire>,
}

impl From<ContainerWire> for Container {
    fn from(wire: ContainerWire) -> Self {
        let whole = wire.env_from.into_iter().filter_map(EnvFromWire::secret);
        let single = wire.env.into_iter().filter_map(EnvWire::secret);
        Self {
            name: wire.name,
            image: wire.image,
            ports: wire.ports,
            resources: wire.resources,
            restart_policy: wire.restart_policy,
            secrets: whole.chain(single).filter(|name| !name.is_empty()).collect(),
        }
    }
}

fn boxed_unless_default<T: Default + PartialEq>(value: T) -> Option<Box<T>> {
    (value != T::default()).then(|| Box::new(value))
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VolumeWire {
    name: SmolStr,
    persistent_volume_claim: Option<ClaimWire>,
    ephemeral: Option<RawJson>,
    csi: Option<CsiWire>,
    gce_persistent_disk: Option<RawJson>,
    aws_elastic_block_store: Option<RawJson>,
    azure_disk: Option<RawJson>,
    azure_file: Option<RawJson>,
    cinder: Option<RawJson>,
    fc: Option<RawJson>,
    iscsi: Option<RawJson>,
    portworx_volume: Option<RawJson>,
    rbd: Option<RawJson>,
    vsphere_volume: Option<RawJson>,
    flex_volume: Option<RawJson>,
    secret: Option<SecretWire>,
    projected: Option<ProjectedWire>,
    cephfs: Option<SecretRefWire>,
    #[serde(rename = "scaleIO")]
    scale_io: Option<SecretRefWire>,
    storageos: Option<SecretRefWire>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimWire {
    claim_name: SmolStr,
    read_only: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CsiWire {
    #[serde(deserialize_with = "intern::text")]
    driver: SmolStr,
    node_publish_secret_ref: Option<Named>,
}

impl VolumeWire {
    /// The secrets it refers to.
    fn secrets(&self) -> Vec<SmolStr> {
        let raw = [&self.azure_file, &self.cinder, &self.flex_volume, &self.rbd, &self.iscsi];
        let mut names: Vec<SmolStr> = raw.into_iter().flatten().filter_map(named_in).collect();
        names.extend(self.secret.iter().map(|secret| secret.secret_name.clone()));
        names.extend(self.projected.iter().flat_map(ProjectedWire::secrets));
        let references = [&self.cephfs, &self.scale_io, &self.storageos].into_iter().flatten();
        let references = references.filter_map(|source| source.secret_ref.as_ref());
        let published = self.csi.iter().filter_map(|csi| csi.node_publish_secret_ref.as_ref());
        names.extend(references.chain(published).map(|secret| secret.name.clone()));
        names
    }

    /// The volume, if a controller handles its source.
    fn relevant(self) -> Option<Volume> {
        let inline = [
            ("gcePersistentDisk", self.gce_persistent_disk),
            ("awsElasticBlockStore", self.aws_elastic_block_store),
            ("azureDisk", self.azure_disk),
            ("azureFile", self.azure_file),
            ("cinder", self.cinder),
            ("fc", self.fc),
            ("iscsi", self.iscsi),
            ("portworxVolume", self.portworx_volume),
            ("rbd", self.rbd),
            ("vsphereVolume", self.vsphere_volume),
            ("flexVolume", self.flex_volume),
        ];
        let source = if let Some(claim) = self.persistent_volume_claim {
            VolumeSource::Claim { name: claim.claim_name, read_only: claim.read_only }
        } else if let Some(template) = self.ephemeral {
            VolumeSource::Ephemeral(template)
        } else if let Some(csi) = self.csi {
            VolumeSource::Csi { driver: csi.driver }
        } else {
            let given =
                |(field, json): (_, Option<_>)| Some(VolumeSource::Inline(SmolStr::new_static(field), json?));
            inline.into_iter().find_map(given)?
        };
        Some(Volume { name: self.name, source })
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StatusWire {
    phase: Phase,
    #[serde(deserialize_with = "null_default")]
    conditions: Box<[PodCondition]>,
    #[serde(rename = "podIP")]
    pod_ip: SmolStr,
    #[serde(rename = "podIPs", deserialize_with = "null_default")]
    pod_ips: Vec<IpWire>,
    #[serde(rename = "hostIP")]
    host_ip: SmolStr,
    #[serde(rename = "hostIPs", deserialize_with = "null_default")]
    host_ips: Vec<IpWire>,
    #[serde(with = "time::seconds_opt")]
    start_time: Option<Timestamp>,
    #[serde(deserialize_with = "null_default")]
    container_statuses: Box<[ContainerStatus]>,
    #[serde(deserialize_with = "null_default")]
    init_container_statuses: Box<[ContainerStatus]>,
    observed_generation: i64,
    qos_class: QosClass,
    #[serde(deserialize_with = "intern::text")]
    reason: SmolStr,
    message: SmolStr,
    nominated_node_name: SmolStr,
    #[serde(deserialize_with = "null_default")]
    resource_claim_statuses: Box<[PodResourceClaimStatus]>,
    extended_resource_claim_status: Option<ExtendedClaimWire>,
    #[serde(deserialize_with = "null_default")]
    ephemeral_container_statuses: Box<[ContainerStatus]>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ExtendedClaimWire {
    resource_claim_name: SmolStr,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct IpWire {
    ip: SmolStr,
}

/// The plural field has all addresses; the singular one is used only without the plural.
fn addresses(main: SmolStr, all: Vec<IpWire>) -> SmallVec<[SmolStr; 1]> {
    if all.is_empty() && !main.is_empty() {
        return SmallVec::from_elem(main, 1);
    }
    all.into_iter().map(|address| address.ip).collect()
}

impl<'de> Deserialize<'de> for PodStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = StatusWire::deserialize(deserializer)?;
        let rare = RareStatus {
            reason: wire.reason,
            message: wire.message,
            nominated_node_name: wire.nominated_node_name,
            resource_claim_statuses: wire.resource_claim_statuses,
            extended_resource_claim: wire
                .extended_resource_claim_status
                .unwrap_or_default()
                .resource_claim_name,
            ephemeral_container_statuses: wire.ephemeral_container_statuses,
        };
        Ok(Self {
            phase: wire.phase,
            conditions: wire.conditions,
            pod_ips: addresses(wire.pod_ip, wire.pod_ips),
            host_ips: addresses(wire.host_ip, wire.host_ips),
            start_time: wire.start_time,
            container_statuses: wire.container_statuses,
            init_container_statuses: wire.init_container_statuses,
            observed_generation: wire.observed_generation,
            qos_class: wire.qos_class,
            rare: boxed_unless_default(rare),
        })
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ConditionWire {
    r#type: SmolStr,
    status: ConditionStatus,
    #[serde(with = "time::seconds_opt")]
    last_transition_time: Option<Timestamp>,
    observed_generation: i64,
    #[serde(deserialize_with = "intern::text")]
    reason: SmolStr,
    #[serde(deserialize_with = "intern::text")]
    message: SmolStr,
}

impl<'de> Deserialize<'de> for PodCondition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = ConditionWire::deserialize(deserializer)?;
        Ok(Self {
            type_: wire.r#type.as_str().into(),
            status: wire.status,
            since: wire.last_transition_time.into(),
            observed_generation: wire.observed_generation,
            why: boxed_unless_default((wire.reason, wire.message)),
        })
    }
}

/// Pods of one template have the same.
static REPORTED: Interner<ReportedResources> = Interner::new();

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerStatusWire {
    #[serde(deserialize_with = "intern::text")]
    name: SmolStr,
    ready: bool,
    restart_count: i32,
    state: ContainerState,
    resources: Option<Resources>,
    allocated_resources: ResourceList,
}

impl<'de> Deserialize<'de> for ContainerStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = ContainerStatusWire::deserialize(deserializer)?;
        let allocated = wire.allocated_resources;
        let reported = wire.resources.map(|actual| REPORTED.share(ReportedResources { actual, allocated }));
        Ok(Self {
            name: wire.name,
            ready: wire.ready,
            restart_count: wire.restart_count,
            state: wire.state,
            resources: reported,
        })
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StateWire {
    waiting: Option<WaitingWire>,
    running: Option<RunningWire>,
    terminated: Option<Box<Terminated>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WaitingWire {
    #[serde(deserialize_with = "intern::text")]
    reason: SmolStr,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RunningWire {
    #[serde(with = "time::seconds_opt")]
    started_at: Option<Timestamp>,
}

impl<'de> Deserialize<'de> for ContainerState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = StateWire::deserialize(deserializer)?;
        Ok(match (wire.terminated, wire.running, wire.waiting) {
            (Some(terminated), _, _) => Self::Terminated(terminated),
            (_, Some(running), _) => Self::Running { started_at: running.started_at },
            (_, _, Some(waiting)) => Self::Waiting { reason: waiting.reason },
            _ => Self::Unset,
        })
    }
}
