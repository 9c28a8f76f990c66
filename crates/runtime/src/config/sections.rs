//! The sections of the configuration, one type each, in the order of `/configz`, and their defaults.

use std::time::Duration;

use flyball_api::protobuf;
use serde::{Serialize, Serializer};

use super::duration;

const fn minutes(n: u64) -> Duration {
    Duration::from_secs(n * 60)
}
const fn hours(n: u64) -> Duration {
    minutes(n * 60)
}

/// Floats as Go writes them: `20`, not `20.0`.
fn float32<S: Serializer>(value: &f32, out: S) -> Result<S::Ok, S::Error> {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        out.serialize_i64(*value as i64)
    } else {
        out.serialize_f32(*value)
    }
}
fn float64<S: Serializer>(value: &f64, out: S) -> Result<S::Ok, S::Error> {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        out.serialize_i64(*value as i64)
    } else {
        out.serialize_f64(*value)
    }
}

/// As Go writes a nil slice.
fn null_if_empty<S: Serializer>(list: &[String], out: S) -> Result<S::Ok, S::Error> {
    if list.is_empty() { out.serialize_none() } else { list.serialize(out) }
}

/// Declares a section: its wire names, types and defaults in one place.
macro_rules! section {
    ($(#[$doc:meta])* $name:ident { $($(#[$attr:meta])* $field:ident: $type:ty = $default:expr),* $(,)? }) => {
        section!("PascalCase", $(#[$doc])* $name { $($(#[$attr])* $field: $type = $default,)* });
    };
    ($case:literal, $(#[$doc:meta])* $name:ident { $($(#[$attr:meta])* $field:ident: $type:ty = $default:expr),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(rename_all = $case)]
        pub struct $name { $($(#[$attr])* pub $field: $type,)* }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    };
}

section!(
    /// Settings for all controllers: client, leader election, which of them run.
    Generic {
        port: i32 = 0,
        address: String = "0.0.0.0".to_owned(),
        #[serde(serialize_with = "duration::serialize")]
        min_resync_period: Duration = hours(12),
        client_connection: ClientConnection = ClientConnection::default(),
        #[serde(serialize_with = "duration::serialize")]
        controller_start_interval: Duration = Duration::ZERO,
        leader_election: LeaderElection = LeaderElection::default(),
        controllers: Vec<String> = vec!["*".to_owned()],
        debugging: Debugging = Debugging::default(),
        leader_migration_enabled: bool = false,
        leader_migration: LeaderMigration = LeaderMigration::default(),
    }
);
section!(
    "camelCase",
    /// The client connection to the API server.
    ClientConnection {
        kubeconfig: String = String::new(),
        accept_content_types: String = String::new(),
        content_type: String = "application/vnd.kubernetes.protobuf".to_owned(),
        #[serde(serialize_with = "float32")]
        qps: f32 = 20.0,
        burst: i32 = 30,
    }
);
impl ClientConnection {
    /// The media type of protobuf.
    pub const PROTOBUF: &str = protobuf::MEDIA_TYPE;

    /// Whether the API server is asked for protobuf.
    pub fn reads_protobuf(&self) -> bool {
        self.content_type == Self::PROTOBUF
    }
}

section!(
    "camelCase",
    /// The settings of leader election.
    LeaderElection {
        leader_elect: bool = true,
        #[serde(serialize_with = "duration::serialize")]
        lease_duration: Duration = Duration::from_secs(15),
        #[serde(serialize_with = "duration::serialize")]
        renew_deadline: Duration = Duration::from_secs(10),
        #[serde(serialize_with = "duration::serialize")]
        retry_period: Duration = Duration::from_secs(2),
        resource_lock: String = "leases".to_owned(),
        resource_name: String = "kube-controller-manager".to_owned(),
        resource_namespace: String = "kube-system".to_owned(),
    }
);
section!("camelCase", Debugging { enable_profiling: bool = true, enable_contention_profiling: bool = false });
section!(
    "camelCase",
    /// Which controllers move to another lease while a cluster migrates to a cloud controller manager.
    LeaderMigration {
        leader_name: String = String::new(),
        resource_lock: String = String::new(),
        controller_leaders: Option<Vec<ControllerLeader>> = None,
    }
);
section!(
    "camelCase",
    /// One controller and the component that leads it.
    ControllerLeader { name: String = String::new(), component: String = String::new(), }
);
section!(
    /// What kube-controller-manager and cloud-controller-manager share.
    KubeCloudShared {
        cloud_provider: CloudProvider = CloudProvider::default(),
        external_cloud_volume_plugin: String = String::new(),
        use_service_account_credentials: bool = false,
        allow_untagged_cloud: bool = false,
        #[serde(serialize_with = "duration::serialize")]
        route_reconciliation_period: Duration = Duration::from_secs(10),
        #[serde(serialize_with = "duration::serialize")]
        node_monitor_period: Duration = Duration::from_secs(5),
        cluster_name: String = "kubernetes".to_owned(),
        #[serde(rename = "ClusterCIDR")]
        cluster_cidr: String = String::new(),
        #[serde(rename = "AllocateNodeCIDRs")]
        allocate_node_cidrs: bool = false,
        #[serde(rename = "CIDRAllocatorType")]
        cidr_allocator_type: String = "RangeAllocator".to_owned(),
        configure_cloud_routes: bool = true,
        #[serde(serialize_with = "duration::serialize")]
        node_sync_period: Duration = Duration::ZERO,
    }
);
section!(
    /// Settings of a cloud-controller-manager.
    Cloud {
        node_controller: CloudNode = CloudNode::default(),
        #[serde(serialize_with = "duration::serialize")]
        node_status_update_frequency: Duration = minutes(5),
        webhook: Webhook = Webhook::default(),
    }
);
section!(CloudNode { concurrent_node_syncs: i32 = 1, concurrent_node_status_updates: i32 = 0 });
impl CloudNode {
    /// How many statuses of nodes are updated at once.
    pub fn status_updates(&self) -> i32 {
        match self.concurrent_node_status_updates {
            given if given > 0 => given,
            _ => self.concurrent_node_syncs,
        }
    }
}
section!(Webhook {
    #[serde(serialize_with = "null_if_empty")]
    webhooks: Vec<String> = vec![],
});
section!(CloudProvider { name: String = String::new(), cloud_config_file: String = String::new() });
section!(AttachDetach {
    #[serde(rename = "DisableAttachDetachReconcilerSync")]
    disable_reconciler_sync: bool = false,
    #[serde(serialize_with = "duration::serialize")]
    reconciler_sync_loop_period: Duration = minutes(1),
    #[serde(rename = "disableForceDetachOnTimeout")]
    disable_force_detach_on_timeout: bool = false,
});
section!(
    /// Which CA signs which kind of certificate request.
    CsrSigning {
        cluster_signing_cert_file: String = String::new(),
        cluster_signing_key_file: String = String::new(),
        kubelet_serving_signer_configuration: SignerFiles = SignerFiles::default(),
        kubelet_client_signer_configuration: SignerFiles = SignerFiles::default(),
        #[serde(rename = "KubeAPIServerClientSignerConfiguration")]
        kube_apiserver_client_signer_configuration: SignerFiles = SignerFiles::default(),
        legacy_unknown_signer_configuration: SignerFiles = SignerFiles::default(),
        #[serde(serialize_with = "duration::serialize")]
        cluster_signing_duration: Duration = hours(24 * 365),
    }
);
section!(SignerFiles { cert_file: String = String::new(), key_file: String = String::new() });
section!(DaemonSet { concurrent_daemon_set_syncs: i32 = 2 });
section!(Deployment { concurrent_deployment_syncs: i32 = 5 });
section!(StatefulSet { concurrent_stateful_set_syncs: i32 = 5 });
section!(Deprecated {});
section!(Endpoint {
    concurrent_endpoint_syncs: i32 = 5,
    #[serde(serialize_with = "duration::serialize")]
    endpoint_updates_batch_period: Duration = Duration::ZERO,
});
section!(EndpointSlice {
    concurrent_service_endpoint_syncs: i32 = 5,
    max_endpoints_per_slice: i32 = 100,
    #[serde(serialize_with = "duration::serialize")]
    endpoint_updates_batch_period: Duration = Duration::ZERO,
});
section!(EndpointSliceMirroring {
    mirroring_concurrent_service_endpoint_syncs: i32 = 5,
    mirroring_max_endpoints_per_subset: i32 = 1000,
    #[serde(serialize_with = "duration::serialize")]
    mirroring_endpoint_updates_batch_period: Duration = Duration::ZERO,
});
section!(EphemeralVolume { concurrent_ephemeral_volume_syncs: i32 = 5 });
section!(
    GarbageCollector {
        enable_garbage_collector: bool = true,
        #[serde(rename = "ConcurrentGCSyncs")]
        concurrent_gc_syncs: i32 = 20,
        #[serde(rename = "GCIgnoredResources")]
        gc_ignored_resources: Vec<GroupResource> = vec![
            GroupResource { group: String::new(), resource: "events".to_owned() },
            GroupResource { group: "events.k8s.io".to_owned(), resource: "events".to_owned() },
        ],
    }
);
section!(
    /// A resource of any version.
    GroupResource { group: String = String::new(), resource: String = String::new(), }
);
section!(Hpa {
    concurrent_horizontal_pod_autoscaler_syncs: i32 = 5,
    #[serde(rename = "HorizontalPodAutoscalerSyncPeriod", serialize_with = "duration::serialize")]
    sync_period: Duration = Duration::from_secs(15),
    #[serde(
        rename = "HorizontalPodAutoscalerDownscaleStabilizationWindow",
        serialize_with = "duration::serialize"
    )]
    downscale_stabilization_window: Duration = minutes(5),
    #[serde(rename = "HorizontalPodAutoscalerTolerance", serialize_with = "float64")]
    tolerance: f64 = 0.1,
    #[serde(
        rename = "HorizontalPodAutoscalerCPUInitializationPeriod",
        serialize_with = "duration::serialize"
    )]
    cpu_initialization_period: Duration = minutes(5),
    #[serde(rename = "HorizontalPodAutoscalerInitialReadinessDelay", serialize_with = "duration::serialize")]
    initial_readiness_delay: Duration = Duration::from_secs(30),
});
section!(Job { concurrent_job_syncs: i32 = 5 });
section!(CronJob { concurrent_cron_job_syncs: i32 = 5 });
section!(LegacySaTokenCleaner {
    #[serde(serialize_with = "duration::serialize")]
    clean_up_period: Duration = hours(24 * 365),
});
section!(Namespace {
    #[serde(serialize_with = "duration::serialize")]
    namespace_sync_period: Duration = minutes(5),
    concurrent_namespace_syncs: i32 = 10,
});
section!(NodeIpam {
    #[serde(rename = "ServiceCIDR")]
    service_cidr: String = String::new(),
    #[serde(rename = "SecondaryServiceCIDR")]
    secondary_service_cidr: String = String::new(),
    #[serde(rename = "NodeCIDRMaskSize")]
    node_cidr_mask_size: i32 = 0,
    #[serde(rename = "NodeCIDRMaskSizeIPv4")]
    node_cidr_mask_size_ipv4: i32 = 0,
    #[serde(rename = "NodeCIDRMaskSizeIPv6")]
    node_cidr_mask_size_ipv6: i32 = 0,
});
section!(NodeLifecycle {
    #[serde(serialize_with = "float32")]
    node_eviction_rate: f32 = 0.1,
    #[serde(serialize_with = "float32")]
    secondary_node_eviction_rate: f32 = 0.01,
    #[serde(serialize_with = "duration::serialize")]
    node_startup_grace_period: Duration = minutes(1),
    #[serde(serialize_with = "duration::serialize")]
    node_monitor_grace_period: Duration = Duration::from_secs(50),
    #[serde(serialize_with = "duration::serialize")]
    pod_eviction_timeout: Duration = Duration::ZERO,
    large_cluster_size_threshold: i32 = 50,
    #[serde(serialize_with = "float32")]
    unhealthy_zone_threshold: f32 = 0.55,
});
section!(PersistentVolumeBinder {
    #[serde(rename = "PVClaimBinderSyncPeriod", serialize_with = "duration::serialize")]
    pv_claim_binder_sync_period: Duration = Duration::from_secs(15),
    volume_configuration: Volumes = Volumes::default(),
});
section!(Volumes {
    enable_host_path_provisioning: bool = false,
    enable_dynamic_provisioning: bool = true,
    #[serde(rename = "PersistentVolumeRecyclerConfiguration")]
    recycler: Recycler = Recycler::default(),
    flex_volume_plugin_dir: String = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/".to_owned(),
});
section!(Recycler {
    maximum_retry: i32 = 3,
    #[serde(rename = "MinimumTimeoutNFS")]
    minimum_timeout_nfs: i32 = 300,
    #[serde(rename = "PodTemplateFilePathNFS")]
    pod_template_file_path_nfs: String = String::new(),
    #[serde(rename = "IncrementTimeoutNFS")]
    increment_timeout_nfs: i32 = 30,
    pod_template_file_path_host_path: String = String::new(),
    minimum_timeout_host_path: i32 = 60,
    increment_timeout_host_path: i32 = 30,
});
section!(PodGc {
    #[serde(rename = "TerminatedPodGCThreshold")]
    terminated_pod_gc_threshold: i32 = 12_500,
});
section!(ReplicaSet {
    #[serde(rename = "ConcurrentRSSyncs")]
    concurrent_rs_syncs: i32 = 5,
});
section!(Replication {
    #[serde(rename = "ConcurrentRCSyncs")]
    concurrent_rc_syncs: i32 = 5,
});
section!(ResourceQuota {
    #[serde(serialize_with = "duration::serialize")]
    resource_quota_sync_period: Duration = minutes(5),
    concurrent_resource_quota_syncs: i32 = 5,
});
section!(ServiceAccount {
    service_account_key_file: String = String::new(),
    #[serde(rename = "ConcurrentSATokenSyncs")]
    concurrent_sa_token_syncs: i32 = 5,
    #[serde(rename = "RootCAFile")]
    root_ca_file: String = String::new(),
});
section!(Service { concurrent_service_syncs: i32 = 1 });
section!(TtlAfterFinished {
    #[serde(rename = "ConcurrentTTLSyncs")]
    concurrent_ttl_syncs: i32 = 5,
});
section!(ValidatingAdmissionPolicyStatus { concurrent_policy_syncs: i32 = 5 });
section!(DeviceTaintEviction { concurrent_syncs: i32 = 8 });
section!(ResourceClaim { concurrent_syncs: i32 = 50 });

/// What upstream does not have: off by default.
#[derive(Debug, Clone, PartialEq)]
pub struct Flyball {
    /// How many objects each controller may delete within a minute; 0 for no limit.
    pub deletions_per_minute: i32,
    /// From how many nodes on that seem lost at once their leases are read from the server first; 0 for never.
    pub verify_lost_nodes: i32,
    /// Whether taint eviction respects disruption budgets.
    pub taint_eviction_respects_budgets: bool,
    /// The folder of the journal of decisions; empty for none.
    pub journal_dir: String,
    /// Its size, in MiB.
    pub journal_size: i32,
    pub journal_age: Duration,
}

impl Default for Flyball {
    fn default() -> Self {
        Self {
            deletions_per_minute: 0,
            verify_lost_nodes: 0,
            taint_eviction_respects_budgets: false,
            journal_dir: String::new(),
            journal_size: 64,
            journal_age: Duration::from_secs(7 * 86_400),
        }
    }
}
