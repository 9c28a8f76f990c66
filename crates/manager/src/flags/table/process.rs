//! Flags of the whole process: which controllers run, their identities, rate limits, and leader election.

use crate::flags::{
    Effect::{Controllers, Nothing, Unsupported},
    Field::{Bool, Duration, Float32, Gates, Int32, List, Text},
    Flag, Section,
};

const NODE_IPAM: &[&str] = &["node-ipam-controller"];
#[rustfmt::skip]
pub(super) const SECTIONS: &[Section] = &[
    Section { name: "debugging", flags: &[
        Flag::new("contention-profiling", Bool(|o| &mut o.config.generic.debugging.enable_contention_profiling),
            "Record where goroutines wait for each other, when profiling is on. There are no goroutines here.")
            .effect(Unsupported("there is no Go runtime to profile")),
        Flag::new("profiling", Bool(|o| &mut o.config.generic.debugging.enable_profiling),
            "Serve the debugging pages below /debug. Go profiles (/debug/pprof) are not among them: there is no Go \
             runtime here; /debug/flags, /debug/decisions and /debug/waiting are."),
    ]},
    Section { name: "leader-migration", flags: &[
        Flag::new("enable-leader-migration", Bool(|o| &mut o.config.generic.leader_migration_enabled),
            "Take a second lease for the controllers that are moving to or from a cloud controller manager, so that \
             they never run twice while a cluster is migrated."),
        Flag::new("leader-migration-config", Text(|o| &mut o.leader_migration_config),
            "File of kind LeaderMigrationConfiguration (controllermanager.config.k8s.io/v1, v1beta1 or v1alpha1) that \
             says which component leads which controller. Without it the defaults of this component hold."),
    ]},
    Section { name: "generic", flags: &[
        Flag::new("allocate-node-cidrs", Bool(|o| &mut o.config.kube_cloud_shared.allocate_node_cidrs),
            "Give every node its own range of pod addresses. Needs --cluster-cidr.").effect(Controllers(NODE_IPAM)),
        Flag::new("allow-untagged-cloud", Bool(|o| &mut o.config.kube_cloud_shared.allow_untagged_cloud),
            "Tolerate cloud instances without a cluster tag.").effect(Nothing)
            .deprecated("it has no effect and will be removed"),
        Flag::new("cidr-allocator-type", Text(|o| &mut o.config.kube_cloud_shared.cidr_allocator_type),
            "How node ranges are allocated. RangeAllocator is the only supported type.").effect(Controllers(NODE_IPAM)),
        Flag::new("cloud-config", Text(|o| &mut o.config.kube_cloud_shared.cloud_provider.cloud_config_file),
            "Configuration of the cloud provider. Only a cloud-controller-manager reads it.").effect(Nothing),
        Flag::new("cloud-provider", Text(|o| &mut o.config.kube_cloud_shared.cloud_provider.name),
            "Either empty or \"external\": the controllers for clouds are in a cloud-controller-manager."),
        Flag::new("cluster-cidr", Text(|o| &mut o.config.kube_cloud_shared.cluster_cidr),
            "The range of all pod addresses, from which nodes get theirs; for dual-stack clusters two ranges of \
             different families, separated by a comma. Used with --allocate-node-cidrs.")
            .effect(Controllers(NODE_IPAM)),
        Flag::new("cluster-name", Text(|o| &mut o.config.kube_cloud_shared.cluster_name),
            "The name of the cluster in the cloud.").effect(Nothing),
        Flag::new("configure-cloud-routes", Bool(|o| &mut o.config.kube_cloud_shared.configure_cloud_routes),
            "Configure routes for the node ranges in the cloud. Only a cloud-controller-manager does so.").effect(Nothing),
        Flag::new("controller-shutdown-timeout", Duration(|o| &mut o.shutdown_timeout),
            "How long controllers may take to finish what they are doing before the process ends; with an error if they need longer. \
             Zero means no limit."),
        Flag::new("controller-start-interval",
            Duration(|o| &mut o.config.generic.controller_start_interval),
            "Each controller starts between this time and twice this time after the process has become the leader."),
        Flag::new("controllers", List(|o| &mut o.controllers),
            "Which controllers run: '*' stands for all that are on by default, 'foo' turns foo on, '-foo' turns it \
             off. Old short names are understood, too. May be repeated."),
        Flag::new("emulated-version", List(|o| &mut o.emulated_version),
            "Version whose behaviour is wanted, as [kube=]major.minor, between 1.33 and 1.36: its feature gates, \
             their defaults and locks."),
        Flag::new("external-cloud-volume-plugin",
            Text(|o| &mut o.config.kube_cloud_shared.external_cloud_volume_plugin),
            "Volume plugin to use with --cloud-provider=external. Kept for old command lines.").effect(Nothing),
        Flag::new("feature-gates", Gates(|o| &mut o.feature_gates),
            "Optional behaviours to turn on or off: Name=true or Name=false, separated by commas, each optionally \
             with the prefix 'kube:'. AllAlpha and AllBeta speak for all gates of their stage. May be repeated. The \
             gates are listed at the end of this page."),
        Flag::new("kube-api-burst", Int32(|o| &mut o.config.generic.client_connection.burst),
            "How many requests each controller may send to the API server at once, beyond the rate of --kube-api-qps."),
        Flag::new("kube-api-content-type", Text(|o| &mut o.config.generic.client_connection.content_type),
            "Encoding of what the API server sends: with application/vnd.kubernetes.protobuf, all built-in kinds except \
             workloads with a template, whose exact JSON matters; with any other type, JSON for everything. What is \
             sent to the API server is JSON."),
        Flag::new("kube-api-qps", Float32(|o| &mut o.config.generic.client_connection.qps),
            "How many requests a second each controller may send to the API server."),
        Flag::new("leader-elect", Bool(|o| &mut o.config.generic.leader_election.leader_elect),
            "Act only while holding the lease, so that several replicas can stand by for each other."),
        Flag::new("leader-elect-lease-duration",
            Duration(|o| &mut o.config.generic.leader_election.lease_duration),
            "How long a standby waits after the last renewal it saw before it takes the lease. A dead leader is \
             replaced after at most about this time."),
        Flag::new("leader-elect-renew-deadline",
            Duration(|o| &mut o.config.generic.leader_election.renew_deadline),
            "How long the leader tries to renew the lease before it gives up and exits. Must be shorter than the \
             lease's duration."),
        Flag::new("leader-elect-resource-lock", Text(|o| &mut o.config.generic.leader_election.resource_lock),
            "Kind of object that serves as the lock: leases."),
        Flag::new("leader-elect-resource-name", Text(|o| &mut o.config.generic.leader_election.resource_name),
            "Name of the lease."),
        Flag::new("leader-elect-resource-namespace",
            Text(|o| &mut o.config.generic.leader_election.resource_namespace),
            "Namespace of the lease."),
        Flag::new("leader-elect-retry-period", Duration(|o| &mut o.config.generic.leader_election.retry_period),
            "Pause between two attempts to take or renew the lease."),
        Flag::new("min-compatibility-version", List(|o| &mut o.min_compatibility_version),
            "Oldest version of other control-plane parts to work with, as [kube=]major.minor, between 1.33 and 1.36 \
             and not above --emulated-version. Feature gates may need it."),
        Flag::new("min-resync-period", Duration(|o| &mut o.config.generic.min_resync_period),
            "All cached objects are resynced after a random time between this and twice this."),
        Flag::new("node-monitor-period", Duration(|o| &mut o.config.kube_cloud_shared.node_monitor_period),
            "How often the health of nodes is checked.").effect(Controllers(&["node-lifecycle-controller"])),
        Flag::new("node-sync-period", Duration(|o| &mut o.config.kube_cloud_shared.node_sync_period),
            "Has no effect.").effect(Nothing).deprecated("it has no effect and will be removed"),
        Flag::new("route-reconciliation-period",
            Duration(|o| &mut o.config.kube_cloud_shared.route_reconciliation_period),
            "How often a cloud-controller-manager checks routes.").effect(Nothing),
        Flag::new("use-service-account-credentials",
            Bool(|o| &mut o.config.kube_cloud_shared.use_service_account_credentials),
            "Let every controller act as its own service account in kube-system, with its own permissions."),
    ]},
    Section { name: "service-lb-controller", flags: &[
        Flag::new("concurrent-service-syncs", Int32(|o| &mut o.config.service_controller.concurrent_service_syncs),
            "Services a cloud-controller-manager syncs at the same time.").effect(Nothing),
    ]},
];
