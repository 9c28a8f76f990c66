//! The configuration of controllers, as `/configz` shows it, with upstream's defaults. Flags set it, controllers read it.
//! Settings of the process itself (serving, logging, credentials) are not part of it.

pub mod duration;
mod sections;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

pub use sections::*;

/// The whole configuration. Field order and names are those of `/configz`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Config {
    pub generic: Generic,
    pub kube_cloud_shared: KubeCloudShared,
    pub attach_detach_controller: AttachDetach,
    #[serde(rename = "CSRSigningController")]
    pub csr_signing_controller: CsrSigning,
    pub daemon_set_controller: DaemonSet,
    pub deployment_controller: Deployment,
    pub stateful_set_controller: StatefulSet,
    pub deprecated_controller: Deprecated,
    pub endpoint_controller: Endpoint,
    pub endpoint_slice_controller: EndpointSlice,
    pub endpoint_slice_mirroring_controller: EndpointSliceMirroring,
    pub ephemeral_volume_controller: EphemeralVolume,
    pub garbage_collector_controller: GarbageCollector,
    #[serde(rename = "HPAController")]
    pub hpa_controller: Hpa,
    pub job_controller: Job,
    pub cron_job_controller: CronJob,
    #[serde(rename = "LegacySATokenCleaner")]
    pub legacy_sa_token_cleaner: LegacySaTokenCleaner,
    pub namespace_controller: Namespace,
    #[serde(rename = "NodeIPAMController")]
    pub node_ipam_controller: NodeIpam,
    pub node_lifecycle_controller: NodeLifecycle,
    pub persistent_volume_binder_controller: PersistentVolumeBinder,
    #[serde(rename = "PodGCController")]
    pub pod_gc_controller: PodGc,
    pub replica_set_controller: ReplicaSet,
    pub replication_controller: Replication,
    pub resource_quota_controller: ResourceQuota,
    #[serde(rename = "SAController")]
    pub sa_controller: ServiceAccount,
    pub service_controller: Service,
    #[serde(rename = "TTLAfterFinishedController")]
    pub ttl_after_finished_controller: TtlAfterFinished,
    pub validating_admission_policy_status_controller: ValidatingAdmissionPolicyStatus,
    pub device_taint_eviction_controller: DeviceTaintEviction,
    pub resource_claim_controller: ResourceClaim,
    /// What upstream does not have. Not shown, since the page is upstream's; `/flagz` has it.
    #[serde(skip)]
    pub flyball: Flyball,
    /// Shown by a cloud-controller-manager only.
    #[serde(skip)]
    pub cloud: Cloud,
}

impl Config {
    /// The body of kube-controller-manager's `/configz`.
    pub fn configz(&self) -> String {
        document("kubecontrollermanager.config.k8s.io", "KubeControllerManagerConfiguration", self)
    }

    /// The body of cloud-controller-manager's `/configz`.
    pub fn cloud_configz(&self) -> String {
        #[derive(Serialize)]
        #[serde(rename_all = "PascalCase")]
        struct Shown<'a> {
            generic: &'a Generic,
            kube_cloud_shared: &'a KubeCloudShared,
            node_controller: CloudNode,
            service_controller: &'a Service,
            #[serde(serialize_with = "duration::serialize")]
            node_status_update_frequency: Duration,
            webhook: &'a Webhook,
        }
        let shown = Shown {
            generic: &self.generic,
            kube_cloud_shared: &self.kube_cloud_shared,
            node_controller: CloudNode {
                concurrent_node_status_updates: self.cloud.node_controller.status_updates(),
                ..self.cloud.node_controller
            },
            service_controller: &self.service_controller,
            node_status_update_frequency: self.cloud.node_status_update_frequency,
            webhook: &self.cloud.webhook,
        };
        document("cloudcontrollermanager.config.k8s.io", "CloudControllerManagerConfiguration", &shown)
    }
}

/// A configuration under the name of its group, as `/configz` shows it.
fn document(group: &'static str, kind: &'static str, config: &impl Serialize) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Document<'a, C> {
        kind: &'static str,
        api_version: String,
        #[serde(flatten)]
        config: &'a C,
    }
    let document = Document { kind, api_version: format!("{group}/v1alpha1"), config };
    // Cannot fail: plain structs of strings and numbers.
    serde_json::to_string(&BTreeMap::from([(group, document)])).unwrap_or_default()
}
