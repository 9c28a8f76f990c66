//! The table of controllers: all of upstream's v1.36.4, with names, accounts, what each watches, reads and writes, and how it
//! is set up. `--controllers`, `--help`, health checks, docs/parity.md and deploy/rbac-controllers.yaml derive from it.

use flyball_runtime::{Start, gates::Gate};

use crate::access::{EVENTS, Rule, rule, watch};

#[derive(Debug, Clone, Copy)]
pub struct Controller {
    pub name: &'static str,
    /// Old names that `--controllers` still accepts.
    pub aliases: &'static [&'static str],
    /// The service account it acts as; none if it uses the manager's own credentials.
    pub identity: Option<&'static str>,
    /// Feature gates that must all be enabled.
    pub gates: &'static [Gate],
    /// Whether `*` includes it.
    pub on_by_default: bool,
    /// What it caches. All controllers share the informers, which use the manager's own credentials.
    pub watches: &'static [Rule],
    /// What it reads from the server under its account, beside the caches.
    pub reads: &'static [Rule],
    /// What its account may write.
    pub writes: &'static [Rule],
    /// The factors of its rate limit.
    pub pace: Pace,
    /// `None`: it is known by name only, and part of the cloud-controller-manager, as in upstream.
    pub start: Option<Start>,
}

impl Controller {
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

/// Factors on `--kube-api-qps` and `--kube-api-burst`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    pub qps: f64,
    pub burst: u32,
}

/// For `..DEFAULT` in tables.
pub const DEFAULT: Controller = Controller {
    name: "",
    aliases: &[],
    identity: None,
    gates: &[],
    on_by_default: true,
    watches: &[],
    reads: &[],
    writes: &[],
    pace: Pace { qps: 1.0, burst: 1 },
    start: None,
};

/// All controllers, in the order in which upstream starts them.
#[rustfmt::skip]
pub const CONTROLLERS: &[Controller] = &[
    Controller { name: "serviceaccount-token-controller", aliases: &["serviceaccount-token"], identity: None,
        watches: &[watch("serviceaccounts"), watch("secrets")],
        writes: &[rule("secrets", &["delete", "update"]), rule("serviceaccounts", &["update"])],
        start: Some(flyball_identity::serviceaccount_token::start),
        ..DEFAULT
    },
    Controller { name: "endpoints-controller", aliases: &["endpoint"], identity: Some("endpoint-controller"),
        watches: &[watch("pods"), watch("services"), watch("endpoints")],
        writes: &[rule("endpoints", &["create", "delete", "update"]),
            rule("endpoints/restricted", &["create"]), EVENTS],
        start: Some(flyball_network::endpoints::start),
        ..DEFAULT
    },
    Controller { name: "endpointslice-controller", aliases: &["endpointslice"], identity: Some("endpointslice-controller"),
        watches: &[watch("pods"), watch("services"), watch("nodes"), watch("endpointslices.discovery.k8s.io")],
        writes: &[rule("services/finalizers", &["update"]),
            rule("endpointslices.discovery.k8s.io", &["create", "delete", "update"]), EVENTS],
        start: Some(flyball_network::endpointslice::start),
        ..DEFAULT
    },
    Controller { name: "endpointslice-mirroring-controller", aliases: &["endpointslicemirroring"], identity: Some("endpointslicemirroring-controller"),
        watches: &[watch("endpoints"), watch("endpointslices.discovery.k8s.io"), watch("services")],
        writes: &[rule("services/finalizers", &["update"]), rule("endpoints/finalizers", &["update"]),
            rule("endpointslices.discovery.k8s.io", &["create", "delete", "update"]), EVENTS],
        start: Some(flyball_network::mirroring::start),
        ..DEFAULT
    },
    Controller { name: "replicationcontroller-controller", aliases: &["replicationcontroller"], identity: Some("replication-controller"),
        watches: &[watch("pods"), watch("replicationcontrollers")],
        reads: &[rule("replicationcontrollers", &["get"])],
        writes: &[rule("replicationcontrollers", &["update"]),
            rule("replicationcontrollers/status", &["update"]),
            rule("replicationcontrollers/finalizers", &["update"]),
            rule("pods", &["create", "delete", "patch"]), EVENTS],
        start: Some(flyball_apps::replicationcontroller::start),
        ..DEFAULT
    },
    Controller { name: "pod-garbage-collector-controller", aliases: &["podgc"], identity: Some("pod-garbage-collector"),
        watches: &[watch("pods"), watch("nodes")],
        reads: &[rule("nodes", &["get"])],
        writes: &[rule("pods", &["delete"]), rule("pods/status", &["patch"])],
        start: Some(flyball_lifecycle::podgc::start),
        ..DEFAULT
    },
    Controller { name: "resourcequota-controller", aliases: &["resourcequota"], identity: Some("resourcequota-controller"),
        watches: &[watch("resourcequotas"), watch("*.*")],
        writes: &[rule("resourcequotas/status", &["update"]), EVENTS],
        start: Some(flyball_policy::resourcequota::start),
        ..DEFAULT
    },
    Controller { name: "namespace-controller", aliases: &["namespace"], identity: Some("namespace-controller"),
        watches: &[watch("namespaces")],
        reads: &[rule("namespaces", &["get"]), rule("*", &["list"])],
        writes: &[rule("namespaces", &["delete"]), rule("namespaces/finalize", &["update"]),
            rule("namespaces/status", &["update"]), rule("*", &["delete", "deletecollection"])],
        pace: Pace { qps: 20.0, burst: 100 },
        start: Some(flyball_lifecycle::namespace::start),
        ..DEFAULT
    },
    Controller { name: "serviceaccount-controller", aliases: &["serviceaccount"], identity: Some("service-account-controller"),
        watches: &[watch("serviceaccounts"), watch("namespaces")],
        writes: &[rule("serviceaccounts", &["create"]), EVENTS],
        start: Some(flyball_identity::serviceaccount::start),
        ..DEFAULT
    },
    Controller { name: "garbage-collector-controller", aliases: &["garbagecollector"], identity: Some("generic-garbage-collector"),
        watches: &[watch("*.*")],
        reads: &[rule("*", &["get"])],
        writes: &[rule("*", &["delete", "patch", "update"]), EVENTS],
        pace: Pace { qps: 2.0, burst: 1 },
        start: Some(flyball_lifecycle::gc::start),
        ..DEFAULT
    },
    Controller { name: "daemonset-controller", aliases: &["daemonset"], identity: Some("daemon-set-controller"),
        watches: &[watch("daemonsets.apps"), watch("controllerrevisions.apps"), watch("pods"), watch("nodes")],
        reads: &[rule("daemonsets.apps", &["get"]), rule("controllerrevisions.apps", &["get"])],
        writes: &[rule("daemonsets/status.apps", &["update"]), rule("daemonsets/finalizers.apps", &["update"]),
            rule("pods", &["create", "delete", "patch"]), rule("pods/binding", &["create"]),
            rule("controllerrevisions.apps", &["create", "delete", "patch", "update"]), EVENTS],
        start: Some(flyball_apps::daemonset::start),
        ..DEFAULT
    },
    Controller { name: "job-controller", aliases: &["job"], identity: Some("job-controller"),
        watches: &[watch("pods"), watch("jobs.batch"),
            watch("workloads.scheduling.k8s.io").behind("WorkloadWithJob"),
            watch("podgroups.scheduling.k8s.io").behind("WorkloadWithJob")],
        reads: &[rule("jobs.batch", &["get"])],
        writes: &[rule("jobs.batch", &["patch", "update"]), rule("jobs/status.batch", &["update"]),
            rule("jobs/finalizers.batch", &["update"]), rule("pods", &["create", "delete", "patch"]), EVENTS,
            rule("workloads.scheduling.k8s.io", &["create"]).behind("WorkloadWithJob"),
            rule("podgroups.scheduling.k8s.io", &["create"]).behind("WorkloadWithJob")],
        start: Some(flyball_batch::job::start),
        ..DEFAULT
    },
    Controller { name: "podgroup-protection-controller", aliases: &[], identity: Some("podgroup-protection-controller"),
        gates: &[Gate::GenericWorkload],
        watches: &[watch("podgroups.scheduling.k8s.io"), watch("pods")],
        writes: &[rule("podgroups.scheduling.k8s.io", &["update"])],
        start: Some(flyball_lifecycle::podgroup_protection::start),
        ..DEFAULT
    },
    Controller { name: "deployment-controller", aliases: &["deployment"], identity: Some("deployment-controller"),
        watches: &[watch("deployments.apps"), watch("replicasets.apps"), watch("pods")],
        reads: &[rule("deployments.apps", &["get"])],
        writes: &[rule("deployments.apps", &["update"]), rule("deployments/status.apps", &["update"]),
            rule("deployments/finalizers.apps", &["update"]),
            rule("replicasets.apps", &["create", "delete", "patch", "update"]), rule("pods", &["update"]),
            EVENTS],
        start: Some(flyball_apps::deployment::start),
        ..DEFAULT
    },
    Controller { name: "replicaset-controller", aliases: &["replicaset"], identity: Some("replicaset-controller"),
        watches: &[watch("replicasets.apps"), watch("pods")],
        reads: &[rule("replicasets.apps", &["get"])],
        writes: &[rule("replicasets.apps", &["update"]), rule("replicasets/status.apps", &["update"]),
            rule("replicasets/finalizers.apps", &["update"]), rule("pods", &["create", "delete", "patch"]),
            EVENTS],
        start: Some(flyball_apps::replicaset::start),
        ..DEFAULT
    },
    Controller { name: "horizontal-pod-autoscaler-controller", aliases: &["horizontalpodautoscaling"], identity: Some("horizontal-pod-autoscaler"),
        watches: &[watch("horizontalpodautoscalers.autoscaling"), watch("pods")],
        reads: &[rule("*/scale", &["get"]), rule("pods.metrics.k8s.io", &["list"]),
            rule("*.custom.metrics.k8s.io", &["get", "list"]), rule("*.external.metrics.k8s.io", &["get", "list"])],
        writes: &[rule("horizontalpodautoscalers/status.autoscaling", &["update"]),
            rule("*/scale", &["update"]), EVENTS],
        start: Some(flyball_autoscaling::horizontal::start),
        ..DEFAULT
    },
    Controller { name: "disruption-controller", aliases: &["disruption"], identity: Some("disruption-controller"),
        watches: &[watch("pods"), watch("poddisruptionbudgets.policy"), watch("replicationcontrollers"),
            watch("replicasets.apps"), watch("deployments.apps"), watch("statefulsets.apps")],
        reads: &[rule("*/scale", &["get"])],
        writes: &[rule("poddisruptionbudgets/status.policy", &["update"]),
            rule("pods/status", &["patch", "update"]), EVENTS],
        start: Some(flyball_policy::disruption::start),
        ..DEFAULT
    },
    Controller { name: "statefulset-controller", aliases: &["statefulset"], identity: Some("statefulset-controller"),
        watches: &[watch("pods"), watch("statefulsets.apps"), watch("persistentvolumeclaims"),
            watch("controllerrevisions.apps")],
        reads: &[rule("statefulsets.apps", &["get"]), rule("controllerrevisions.apps", &["get"]), rule("pods", &["get"])],
        writes: &[rule("statefulsets/status.apps", &["update"]),
            rule("statefulsets/finalizers.apps", &["update"]),
            rule("pods", &["create", "delete", "patch", "update"]),
            rule("controllerrevisions.apps", &["create", "delete", "patch", "update"]),
            rule("persistentvolumeclaims", &["create", "delete", "update"]),
            rule("pods/finalizers", &["update"]), EVENTS],
        start: Some(flyball_apps::statefulset::start),
        ..DEFAULT
    },
    Controller { name: "cronjob-controller", aliases: &["cronjob"], identity: Some("cronjob-controller"),
        watches: &[watch("jobs.batch"), watch("cronjobs.batch")],
        reads: &[rule("cronjobs.batch", &["get"]), rule("jobs.batch", &["get"])],
        writes: &[rule("cronjobs.batch", &["update"]),
            rule("jobs.batch", &["create", "delete", "patch", "update"]),
            rule("cronjobs/status.batch", &["update"]), rule("cronjobs/finalizers.batch", &["update"]),
            rule("pods", &["delete"]), EVENTS],
        start: Some(flyball_batch::cronjob::start),
        ..DEFAULT
    },
    Controller { name: "certificatesigningrequest-signing-controller", aliases: &["csrsigning"], identity: Some("certificate-controller"),
        watches: &[watch("certificatesigningrequests.certificates.k8s.io")],
        writes: &[rule("certificatesigningrequests.certificates.k8s.io", &["delete"]),
            rule("certificatesigningrequests/approval.certificates.k8s.io", &["update"]),
            rule("certificatesigningrequests/status.certificates.k8s.io", &["update"]),
            rule("signers.certificates.k8s.io", &["approve"]).named(&["kubernetes.io/kube-apiserver-client-kubelet"]),
            rule("signers.certificates.k8s.io", &["sign"]).named(&["kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving", "kubernetes.io/legacy-unknown"]),
            rule("subjectaccessreviews.authorization.k8s.io", &["create"]), EVENTS],
        start: Some(flyball_certificates::signing::start),
        ..DEFAULT
    },
    Controller { name: "certificatesigningrequest-approving-controller", aliases: &["csrapproving"], identity: Some("certificate-controller"),
        watches: &[watch("certificatesigningrequests.certificates.k8s.io")],
        writes: &[rule("certificatesigningrequests.certificates.k8s.io", &["delete"]),
            rule("certificatesigningrequests/approval.certificates.k8s.io", &["update"]),
            rule("certificatesigningrequests/status.certificates.k8s.io", &["update"]),
            rule("signers.certificates.k8s.io", &["approve"]).named(&["kubernetes.io/kube-apiserver-client-kubelet"]),
            rule("signers.certificates.k8s.io", &["sign"]).named(&["kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving", "kubernetes.io/legacy-unknown"]),
            rule("subjectaccessreviews.authorization.k8s.io", &["create"]), EVENTS],
        start: Some(flyball_certificates::approving::start),
        ..DEFAULT
    },
    Controller { name: "certificatesigningrequest-cleaner-controller", aliases: &["csrcleaner"], identity: Some("certificate-controller"),
        watches: &[watch("certificatesigningrequests.certificates.k8s.io")],
        writes: &[rule("certificatesigningrequests.certificates.k8s.io", &["delete"]),
            rule("certificatesigningrequests/approval.certificates.k8s.io", &["update"]),
            rule("certificatesigningrequests/status.certificates.k8s.io", &["update"]),
            rule("signers.certificates.k8s.io", &["approve"]).named(&["kubernetes.io/kube-apiserver-client-kubelet"]),
            rule("signers.certificates.k8s.io", &["sign"]).named(&["kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving", "kubernetes.io/legacy-unknown"]),
            rule("subjectaccessreviews.authorization.k8s.io", &["create"]), EVENTS],
        start: Some(flyball_certificates::cleaning::start),
        ..DEFAULT
    },
    Controller { name: "podcertificaterequest-cleaner-controller", aliases: &[], identity: Some("podcertificaterequestcleaner"),
        gates: &[Gate::PodCertificateRequest],
        watches: &[watch("podcertificaterequests.certificates.k8s.io")],
        writes: &[rule("podcertificaterequests.certificates.k8s.io", &["delete"])],
        start: Some(flyball_certificates::pod_requests::start),
        ..DEFAULT
    },
    Controller { name: "ttl-controller", aliases: &["ttl"], identity: Some("ttl-controller"),
        watches: &[watch("nodes")],
        writes: &[rule("nodes", &["patch", "update"]), EVENTS],
        start: Some(flyball_node::ttl::start),
        ..DEFAULT
    },
    Controller { name: "bootstrap-signer-controller", aliases: &["bootstrapsigner"], identity: Some("bootstrap-signer"),
        on_by_default: false,
        watches: &[watch("secrets").within("kube-system"),
            watch("configmaps").named(&["cluster-info"]).within("kube-public")],
        writes: &[rule("configmaps", &["update"]).named(&["cluster-info"]).within("kube-public"),
            EVENTS.within("kube-public")],
        start: Some(flyball_certificates::bootstrap_signer::start),
        ..DEFAULT
    },
    Controller { name: "token-cleaner-controller", aliases: &["tokencleaner"], identity: Some("token-cleaner"),
        on_by_default: false,
        watches: &[watch("secrets").within("kube-system")],
        writes: &[rule("secrets", &["delete"]).within("kube-system"), EVENTS.within("kube-system")],
        start: Some(flyball_certificates::token_cleaner::start),
        ..DEFAULT
    },
    Controller { name: "node-ipam-controller", aliases: &["nodeipam"], identity: Some("node-controller"),
        watches: &[watch("nodes")],
        reads: &[rule("nodes", &["list"])],
        writes: &[rule("nodes", &["delete", "patch", "update"]), rule("nodes/status", &["patch", "update"]),
            rule("pods/status", &["patch", "update"]), rule("pods", &["delete"]), EVENTS],
        start: Some(flyball_node::ipam::start),
        ..DEFAULT
    },
    Controller { name: "node-lifecycle-controller", aliases: &["nodelifecycle"], identity: Some("node-controller"),
        watches: &[watch("leases.coordination.k8s.io"), watch("pods"),
            watch("nodes"), watch("daemonsets.apps")],
        reads: &[rule("nodes", &["get"]), rule("pods", &["get", "list"])],
        writes: &[rule("nodes", &["delete", "patch", "update"]), rule("nodes/status", &["patch", "update"]),
            rule("pods/status", &["patch", "update"]), rule("pods", &["delete"]), EVENTS],
        start: Some(flyball_node::lifecycle::start),
        ..DEFAULT
    },
    Controller { name: "service-lb-controller", aliases: &["service"], identity: None,
        ..DEFAULT
    },
    Controller { name: "node-route-controller", aliases: &["route"], identity: None,
        ..DEFAULT
    },
    Controller { name: "cloud-node-lifecycle-controller", aliases: &["cloud-node-lifecycle"], identity: None,
        ..DEFAULT
    },
    Controller { name: "persistentvolume-binder-controller", aliases: &["persistentvolume-binder"], identity: Some("persistent-volume-binder"),
        watches: &[watch("persistentvolumes"), watch("persistentvolumeclaims"),
            watch("storageclasses.storage.k8s.io"), watch("pods"), watch("nodes")],
        reads: &[rule("persistentvolumes", &["get"]), rule("persistentvolumeclaims", &["get"]),
            rule("events", &["watch"])],
        writes: &[rule("persistentvolumes", &["create", "delete", "update"]),
            rule("persistentvolumes/status", &["update"]), rule("persistentvolumeclaims", &["update"]),
            rule("persistentvolumeclaims/status", &["update"]), rule("pods", &["create", "delete"]), EVENTS],
        start: Some(flyball_storage::binder::start),
        ..DEFAULT
    },
    Controller { name: "persistentvolume-attach-detach-controller", aliases: &["attachdetach"], identity: Some("attachdetach-controller"),
        watches: &[watch("pods"), watch("nodes"), watch("persistentvolumeclaims"), watch("persistentvolumes"),
            watch("csinodes.storage.k8s.io"), watch("csidrivers.storage.k8s.io"),
            watch("volumeattachments.storage.k8s.io")],
        reads: &[rule("nodes", &["get"])],
        writes: &[rule("nodes/status", &["patch", "update"]), EVENTS,
            rule("volumeattachments.storage.k8s.io", &["create", "delete"])],
        start: Some(flyball_storage::attach_detach::start),
        ..DEFAULT
    },
    Controller { name: "persistentvolume-expander-controller", aliases: &["persistentvolume-expander"], identity: Some("expand-controller"),
        watches: &[watch("persistentvolumeclaims")],
        writes: &[rule("persistentvolumes", &["patch", "update"]),
            rule("persistentvolumeclaims/status", &["patch", "update"]), EVENTS],
        start: Some(flyball_storage::expander::start),
        ..DEFAULT
    },
    Controller { name: "clusterrole-aggregation-controller", aliases: &["clusterrole-aggregation"], identity: Some("clusterrole-aggregation-controller"),
        watches: &[watch("clusterroles.rbac.authorization.k8s.io")],
        writes: &[rule("clusterroles.rbac.authorization.k8s.io", &["escalate", "patch", "update"])],
        start: Some(flyball_identity::clusterrole_aggregation::start),
        ..DEFAULT
    },
    Controller { name: "persistentvolumeclaim-protection-controller", aliases: &["pvc-protection"], identity: Some("pvc-protection-controller"),
        watches: &[watch("persistentvolumeclaims"), watch("pods")],
        reads: &[rule("pods", &["list"])],
        writes: &[rule("persistentvolumeclaims", &["update"]),
            rule("persistentvolumeclaims/status", &["update"]), EVENTS],
        start: Some(flyball_storage::pvc_protection::start),
        ..DEFAULT
    },
    Controller { name: "persistentvolume-protection-controller", aliases: &["pv-protection"], identity: Some("pv-protection-controller"),
        watches: &[watch("persistentvolumes")],
        writes: &[rule("persistentvolumes", &["update"]), EVENTS],
        start: Some(flyball_storage::pv_protection::start),
        ..DEFAULT
    },
    Controller { name: "volumeattributesclass-protection-controller", aliases: &[], identity: Some("volumeattributesclass-protection-controller"),
        gates: &[Gate::VolumeAttributesClass],
        watches: &[watch("persistentvolumeclaims"), watch("persistentvolumes"),
            watch("volumeattributesclasses.storage.k8s.io")],
        writes: &[rule("volumeattributesclasses.storage.k8s.io", &["update"]), EVENTS],
        start: Some(flyball_storage::vac_protection::start),
        ..DEFAULT
    },
    Controller { name: "ttl-after-finished-controller", aliases: &["ttl-after-finished"], identity: Some("ttl-after-finished-controller"),
        watches: &[watch("jobs.batch")],
        reads: &[rule("jobs.batch", &["get"])],
        writes: &[rule("jobs.batch", &["delete"]), EVENTS],
        start: Some(flyball_batch::ttlafterfinished::start),
        ..DEFAULT
    },
    Controller { name: "root-ca-certificate-publisher-controller", aliases: &["root-ca-cert-publisher"], identity: Some("root-ca-cert-publisher"),
        watches: &[watch("configmaps"), watch("namespaces")],
        writes: &[rule("configmaps", &["create", "update"]), EVENTS],
        start: Some(flyball_identity::root_ca::start),
        ..DEFAULT
    },
    Controller { name: "kube-apiserver-serving-clustertrustbundle-publisher-controller", aliases: &[], identity: Some("kube-apiserver-serving-clustertrustbundle-publisher"),
        gates: &[Gate::ClusterTrustBundle],
        watches: &[watch("clustertrustbundles.certificates.k8s.io")],
        writes: &[rule("clustertrustbundles.certificates.k8s.io", &["create", "delete", "update"]),
            rule("signers.certificates.k8s.io", &["attest"]).named(&["kubernetes.io/kube-apiserver-serving"]),
            EVENTS],
        start: Some(flyball_certificates::trust_bundle::start),
        ..DEFAULT
    },
    Controller { name: "ephemeral-volume-controller", aliases: &["ephemeral-volume"], identity: Some("ephemeral-volume-controller"),
        watches: &[watch("pods"), watch("persistentvolumeclaims")],
        writes: &[rule("pods/finalizers", &["update"]), rule("persistentvolumeclaims", &["create"]), EVENTS],
        start: Some(flyball_storage::ephemeral_volume::start),
        ..DEFAULT
    },
    Controller { name: "storageversion-garbage-collector-controller", aliases: &["storage-version-gc"], identity: Some("storage-version-garbage-collector"),
        gates: &[Gate::APIServerIdentity, Gate::StorageVersionAPI],
        watches: &[watch("leases.coordination.k8s.io"), watch("storageversions.internal.apiserver.k8s.io")],
        reads: &[rule("storageversions.internal.apiserver.k8s.io", &["get", "list"]),
            rule("leases.coordination.k8s.io", &["get"])],
        writes: &[rule("storageversions.internal.apiserver.k8s.io", &["delete", "patch", "update"]),
            rule("storageversions/status.internal.apiserver.k8s.io", &["patch", "update"])],
        start: Some(flyball_lifecycle::storage_version_gc::start),
        ..DEFAULT
    },
    Controller { name: "resourceclaim-controller", aliases: &["resource-claim-controller"], identity: Some("resource-claim-controller"),
        gates: &[Gate::DynamicResourceAllocation],
        watches: &[watch("pods"), watch("podgroups.scheduling.k8s.io").behind("DRAWorkloadResourceClaims"),
            watch("resourceclaims.resource.k8s.io"), watch("resourceclaimtemplates.resource.k8s.io")],
        reads: &[rule("pods", &["get"]),
            rule("podgroups.scheduling.k8s.io", &["get"]).behind("DRAWorkloadResourceClaims")],
        writes: &[rule("pods/finalizers", &["update"]),
            rule("resourceclaims.resource.k8s.io", &["create", "delete", "patch", "update"]),
            rule("resourceclaims/status.resource.k8s.io", &["patch", "update"]),
            rule("pods/status", &["patch", "update"]), EVENTS,
            rule("podgroups/status.scheduling.k8s.io", &["patch", "update"]).behind("DRAWorkloadResourceClaims"),
            rule("resourceclaims/binding.resource.k8s.io", &["patch", "update"])],
        start: Some(flyball_resource::resource_claim::start),
        ..DEFAULT
    },
    Controller { name: "resourcepoolstatusrequest-controller", aliases: &[], identity: Some("resourcepoolstatusrequest-controller"),
        gates: &[Gate::DRAResourcePoolStatus],
        watches: &[watch("resourcepoolstatusrequests.resource.k8s.io"),
            watch("resourceslices.resource.k8s.io"), watch("resourceclaims.resource.k8s.io")],
        writes: &[rule("resourcepoolstatusrequests.resource.k8s.io", &["delete"]),
            rule("resourcepoolstatusrequests/status.resource.k8s.io", &["patch", "update"]), EVENTS],
        start: Some(flyball_resource::pool_status::start),
        ..DEFAULT
    },
    Controller { name: "device-taint-eviction-controller", aliases: &[], identity: Some("device-taint-eviction-controller"),
        gates: &[Gate::DynamicResourceAllocation, Gate::DRADeviceTaints],
        watches: &[watch("pods"), watch("resourceclaims.resource.k8s.io"),
            watch("resourceslices.resource.k8s.io"), watch("deviceclasses.resource.k8s.io"),
            watch("devicetaintrules.resource.k8s.io").behind("DRADeviceTaintRules")],
        reads: &[rule("pods", &["get"])],
        writes: &[rule("pods", &["delete"]), rule("pods/status", &["patch", "update"]), EVENTS,
            rule("devicetaintrules/status.resource.k8s.io", &["patch", "update"]).behind("DRADeviceTaintRules")],
        start: Some(flyball_resource::taint_eviction::start),
        ..DEFAULT
    },
    Controller { name: "legacy-serviceaccount-token-cleaner-controller", aliases: &["legacy-service-account-token-cleaner"], identity: Some("legacy-service-account-token-cleaner"),
        watches: &[watch("serviceaccounts"), watch("secrets"), watch("pods")],
        reads: &[rule("configmaps", &["get"]).named(&["kube-apiserver-legacy-service-account-token-tracking"])],
        writes: &[rule("secrets", &["delete", "patch"])],
        start: Some(flyball_identity::legacy_token_cleaner::start),
        ..DEFAULT
    },
    Controller { name: "validatingadmissionpolicy-status-controller", aliases: &[], identity: Some("validatingadmissionpolicy-status-controller"),
        watches: &[watch("validatingadmissionpolicies.admissionregistration.k8s.io")],
        writes: &[
            rule("validatingadmissionpolicies/status.admissionregistration.k8s.io", &["patch", "update"]),
            EVENTS],
        start: Some(flyball_policy::admission_policy::start),
        ..DEFAULT
    },
    Controller { name: "taint-eviction-controller", aliases: &[], identity: Some("node-controller"),
        gates: &[Gate::SeparateTaintEvictionController],
        watches: &[watch("pods"), watch("nodes")],
        writes: &[rule("nodes", &["delete", "patch", "update"]), rule("nodes/status", &["patch", "update"]),
            rule("pods/status", &["patch", "update"]), rule("pods", &["delete"]), EVENTS],
        start: Some(flyball_node::tainteviction::start),
        ..DEFAULT
    },
    Controller { name: "service-cidr-controller", aliases: &[], identity: Some("service-cidrs-controller"),
        gates: &[Gate::MultiCIDRServiceAllocator],
        watches: &[watch("servicecidrs.networking.k8s.io"), watch("ipaddresses.networking.k8s.io")],
        writes: &[rule("servicecidrs.networking.k8s.io", &["patch", "update"]),
            rule("servicecidrs/finalizers.networking.k8s.io", &["patch", "update"]),
            rule("servicecidrs/status.networking.k8s.io", &["patch", "update"]), EVENTS],
        start: Some(flyball_network::service_cidr::start),
        ..DEFAULT
    },
    Controller { name: "storage-version-migrator-controller", aliases: &["svm"], identity: Some("storage-version-migrator-controller"),
        gates: &[Gate::StorageVersionMigrator, Gate::InformerResourceVersion],
        watches: &[watch("storageversionmigrations.storagemigration.k8s.io"), watch("*.*")],
        reads: &[rule("*.*", &["list"]), rule("customresourcedefinitions.apiextensions.k8s.io", &["get"])],
        writes: &[rule("*.*", &["create", "patch"]),
            rule("customresourcedefinitions/status.apiextensions.k8s.io", &["patch"]),
            rule("storageversionmigrations/status.storagemigration.k8s.io", &["update"])],
        pace: Pace { qps: 20.0, burst: 100 },
        start: Some(flyball_lifecycle::storage_version_migrator::start),
        ..DEFAULT
    },
    Controller { name: "selinux-warning-controller", aliases: &[], identity: Some("selinux-warning-controller"),
        gates: &[Gate::SELinuxChangePolicy],
        on_by_default: false,
        watches: &[watch("pods"), watch("persistentvolumeclaims"), watch("persistentvolumes"),
            watch("csidrivers.storage.k8s.io")],
        writes: &[EVENTS],
        start: Some(flyball_storage::selinux_warning::start),
        ..DEFAULT
    },
];

/// Controllers that upstream does not have. Tests leave them out, so that one can be tried; on the main branch there is none.
#[cfg(test)]
pub(crate) const OURS: &[&str] = &[];

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
