//! The table of controllers: all that upstream's v1.36.4 knows, what each is called, acts as, watches and
//! writes, and whether it is here. `--controllers`, `--help`, health checks and docs/parity.md derive from it.

use flyball_runtime::Start;

/// One controller.
#[derive(Debug, Clone, Copy)]
pub struct Controller {
    /// Its canonical name.
    pub name: &'static str,
    /// Old names that `--controllers` still takes.
    pub aliases: &'static [&'static str],
    /// The service account it acts as; none if it uses the manager's own credentials.
    pub identity: Option<&'static str>,
    /// Gates that must all be on for it to run.
    pub gates: &'static [&'static str],
    /// Whether `*` includes it.
    pub on_by_default: bool,
    /// What it reads.
    pub watches: &'static str,
    /// What it writes, and with which verbs.
    pub writes: &'static str,
    /// By how much it may ask more often than the others.
    pub pace: Pace,
    /// Whether it is here.
    pub state: State,
    /// How to set it up, if it is here.
    pub start: Option<Start>,
}

impl Controller {
    /// Whether this is its canonical name or an alias.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

/// How far a controller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Does what upstream's does.
    Done,
    /// Runs, but leaves out what the text says.
    Partial(&'static str),
    /// Not written yet.
    Missing,
    /// Known by name only: it lives in the cloud-controller-manager, as upstream.
    Cloud,
}

/// Factors on `--kube-api-qps` and `--kube-api-burst`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// On the rate.
    pub qps: f64,
    /// On the burst.
    pub burst: u32,
}

/// A controller of which nothing is said: for `..DEFAULT` in tables.
pub const DEFAULT: Controller = Controller {
    name: "",
    aliases: &[],
    identity: None,
    gates: &[],
    on_by_default: true,
    watches: "",
    writes: "",
    pace: Pace { qps: 1.0, burst: 1 },
    state: State::Missing,
    start: None,
};

/// All controllers, in the order in which upstream starts them.
#[rustfmt::skip]
pub const CONTROLLERS: &[Controller] = &[
    Controller { name: "serviceaccount-token-controller", aliases: &["serviceaccount-token"], identity: None,
        watches: "serviceaccounts; secrets",
        writes: "secrets(delete,update); serviceaccounts(update); via root credentials",
        state: State::Done, start: Some(flyball_identity::serviceaccount_token::start),
        ..DEFAULT
    },
    Controller { name: "endpoints-controller", aliases: &["endpoint"], identity: Some("endpoint-controller"),
        watches: "pods; services; endpoints",
        writes: "endpoints(create,delete,update); endpoints/restricted(create); events(create,patch,update)",
        state: State::Done, start: Some(flyball_network::endpoints::start),
        ..DEFAULT
    },
    Controller { name: "endpointslice-controller", aliases: &["endpointslice"], identity: Some("endpointslice-controller"),
        watches: "pods; services; nodes; endpointslices.discovery.k8s.io",
        writes: "services/finalizers(update); endpointslices.discovery.k8s.io(create,delete,update); \
            events(create,patch,update)",
        state: State::Done, start: Some(flyball_network::endpointslice::start),
        ..DEFAULT
    },
    Controller { name: "endpointslice-mirroring-controller", aliases: &["endpointslicemirroring"], identity: Some("endpointslicemirroring-controller"),
        watches: "endpoints; endpointslices.discovery.k8s.io; services",
        writes: "services/finalizers(update); endpoints/finalizers(update); \
            endpointslices.discovery.k8s.io(create,delete,update); events(create,patch,update)",
        state: State::Done, start: Some(flyball_network::mirroring::start),
        ..DEFAULT
    },
    Controller { name: "replicationcontroller-controller", aliases: &["replicationcontroller"], identity: Some("replication-controller"),
        watches: "pods; replicationcontrollers",
        writes: "replicationcontrollers(update); replicationcontrollers/status(update); \
            replicationcontrollers/finalizers(update); pods(create,delete,patch); events(create,patch,update)",
        state: State::Done, start: Some(flyball_apps::replicationcontroller::start),
        ..DEFAULT
    },
    Controller { name: "pod-garbage-collector-controller", aliases: &["podgc"], identity: Some("pod-garbage-collector"),
        watches: "pods; nodes",
        writes: "pods(delete); pods/status(patch)",
        state: State::Done, start: Some(flyball_lifecycle::podgc::start),
        ..DEFAULT
    },
    Controller { name: "resourcequota-controller", aliases: &["resourcequota"], identity: Some("resourcequota-controller"),
        watches: "resourcequotas; every quota-able resource by metadata or typed informer",
        writes: "resourcequotas/status(update); events(create,patch,update)",
        state: State::Done, start: Some(flyball_policy::resourcequota::start),
        ..DEFAULT
    },
    Controller { name: "namespace-controller", aliases: &["namespace"], identity: Some("namespace-controller"),
        watches: "namespaces",
        writes: "namespaces(delete); namespaces/finalize(update); namespaces/status(update); \
            *(delete,deletecollection)",
        pace: Pace { qps: 20.0, burst: 100 },
        state: State::Done, start: Some(flyball_lifecycle::namespace::start),
        ..DEFAULT
    },
    Controller { name: "serviceaccount-controller", aliases: &["serviceaccount"], identity: Some("service-account-controller"),
        watches: "serviceaccounts; namespaces",
        writes: "serviceaccounts(create); events(create,patch,update)",
        state: State::Done, start: Some(flyball_identity::serviceaccount::start),
        ..DEFAULT
    },
    Controller { name: "garbage-collector-controller", aliases: &["garbagecollector"], identity: Some("generic-garbage-collector"),
        watches: "every deletable resource (metadata informers) except events",
        writes: "*(delete,patch,update); events(create,patch,update)",
        pace: Pace { qps: 2.0, burst: 1 },
        state: State::Done, start: Some(flyball_lifecycle::gc::start),
        ..DEFAULT
    },
    Controller { name: "daemonset-controller", aliases: &["daemonset"], identity: Some("daemon-set-controller"),
        watches: "daemonsets.apps; controllerrevisions.apps; pods; nodes",
        writes: "daemonsets/status.apps(update); daemonsets/finalizers.apps(update); pods(create,delete,patch); \
            pods/binding(create); controllerrevisions.apps(create,delete,patch,update); \
            events(create,patch,update)",
        state: State::Done, start: Some(flyball_apps::daemonset::start),
        ..DEFAULT
    },
    Controller { name: "job-controller", aliases: &["job"], identity: Some("job-controller"),
        watches: "pods; jobs.batch; workloads and podgroups.scheduling.k8s.io v1alpha2 only with WorkloadWithJob",
        writes: "jobs.batch(patch,update); jobs/status.batch(update); jobs/finalizers.batch(update); \
            pods(create,delete,patch); events(create,patch,update); \
            workloads,podgroups.scheduling.k8s.io(create) when WorkloadWithJob",
        // Complete for every gate that is on by default; with WorkloadWithJob (alpha) it warns that it does no more.
        state: State::Done, start: Some(flyball_batch::job::start),
        ..DEFAULT
    },
    Controller { name: "podgroup-protection-controller", aliases: &[], identity: Some("podgroup-protection-controller"),
        gates: &["GenericWorkload"],
        watches: "podgroups.scheduling.k8s.io v1alpha2; pods",
        writes: "podgroups.scheduling.k8s.io(update)",
        state: State::Done, start: Some(flyball_lifecycle::podgroup_protection::start),
        ..DEFAULT
    },
    Controller { name: "deployment-controller", aliases: &["deployment"], identity: Some("deployment-controller"),
        watches: "deployments.apps; replicasets.apps; pods",
        writes: "deployments.apps(update); deployments/status.apps(update); deployments/finalizers.apps(update); \
            replicasets.apps(create,delete,patch,update); pods(update); events(create,patch,update)",
        state: State::Done, start: Some(flyball_apps::deployment::start),
        ..DEFAULT
    },
    Controller { name: "replicaset-controller", aliases: &["replicaset"], identity: Some("replicaset-controller"),
        watches: "replicasets.apps; pods",
        writes: "replicasets.apps(update); replicasets/status.apps(update); replicasets/finalizers.apps(update); \
            pods(create,delete,patch); events(create,patch,update)",
        state: State::Done, start: Some(flyball_apps::replicaset::start),
        ..DEFAULT
    },
    Controller { name: "horizontal-pod-autoscaler-controller", aliases: &["horizontalpodautoscaling"], identity: Some("horizontal-pod-autoscaler"),
        watches: "horizontalpodautoscalers.autoscaling v2; pods; live: */scale, metrics.k8s.io, custom.metrics.k8s.io, \
            external.metrics.k8s.io",
        writes: "horizontalpodautoscalers/status.autoscaling(update); */scale(update); events(create,patch,update)",
        state: State::Done, start: Some(flyball_autoscaling::horizontal::start),
        ..DEFAULT
    },
    Controller { name: "disruption-controller", aliases: &["disruption"], identity: Some("disruption-controller"),
        watches: "pods; poddisruptionbudgets.policy; replicationcontrollers; replicasets, deployments, \
            statefulsets.apps; live: */scale",
        writes: "poddisruptionbudgets/status.policy(update); pods/status(patch,update); events(create,patch,update)",
        state: State::Done, start: Some(flyball_policy::disruption::start),
        ..DEFAULT
    },
    Controller { name: "statefulset-controller", aliases: &["statefulset"], identity: Some("statefulset-controller"),
        watches: "pods; statefulsets.apps; persistentvolumeclaims; controllerrevisions.apps",
        writes: "statefulsets/status.apps(update); statefulsets/finalizers.apps(update); \
            pods(create,delete,patch,update); controllerrevisions.apps(create,delete,patch,update); \
            persistentvolumeclaims(create,delete,update); pods/finalizers(update); events(create,patch,update)",
        state: State::Done, start: Some(flyball_apps::statefulset::start),
        ..DEFAULT
    },
    Controller { name: "cronjob-controller", aliases: &["cronjob"], identity: Some("cronjob-controller"),
        watches: "jobs.batch; cronjobs.batch",
        writes: "cronjobs.batch(update); jobs.batch(create,delete,patch,update); cronjobs/status.batch(update); \
            cronjobs/finalizers.batch(update); pods(delete); events(create,patch,update)",
        state: State::Done, start: Some(flyball_batch::cronjob::start),
        ..DEFAULT
    },
    Controller { name: "certificatesigningrequest-signing-controller", aliases: &["csrsigning"], identity: Some("certificate-controller"),
        watches: "certificatesigningrequests.certificates.k8s.io",
        writes: "certificatesigningrequests.certificates.k8s.io(delete); \
            certificatesigningrequests/approval.certificates.k8s.io(update); \
            certificatesigningrequests/status.certificates.k8s.io(update); \
            signers.certificates.k8s.io[kubernetes.io/kube-apiserver-client-kubelet](approve); \
            signers.certificates.k8s.io[kubernetes.io/kube-apiserver-client|kubernetes.io/kube-apiserver-client-kubelet|kubernetes.io/kubelet-serving|kubernetes.io/legacy-unknown](sign); \
            subjectaccessreviews.authorization.k8s.io(create); events(create,patch,update)",
        state: State::Done, start: Some(flyball_certificates::signing::start),
        ..DEFAULT
    },
    Controller { name: "certificatesigningrequest-approving-controller", aliases: &["csrapproving"], identity: Some("certificate-controller"),
        watches: "certificatesigningrequests.certificates.k8s.io",
        writes: "certificatesigningrequests.certificates.k8s.io(delete); \
            certificatesigningrequests/approval.certificates.k8s.io(update); \
            certificatesigningrequests/status.certificates.k8s.io(update); \
            signers.certificates.k8s.io[kubernetes.io/kube-apiserver-client-kubelet](approve); \
            signers.certificates.k8s.io[kubernetes.io/kube-apiserver-client|kubernetes.io/kube-apiserver-client-kubelet|kubernetes.io/kubelet-serving|kubernetes.io/legacy-unknown](sign); \
            subjectaccessreviews.authorization.k8s.io(create); events(create,patch,update)",
        state: State::Done, start: Some(flyball_certificates::approving::start),
        ..DEFAULT
    },
    Controller { name: "certificatesigningrequest-cleaner-controller", aliases: &["csrcleaner"], identity: Some("certificate-controller"),
        watches: "certificatesigningrequests.certificates.k8s.io",
        writes: "certificatesigningrequests.certificates.k8s.io(delete); \
            certificatesigningrequests/approval.certificates.k8s.io(update); \
            certificatesigningrequests/status.certificates.k8s.io(update); \
            signers.certificates.k8s.io[kubernetes.io/kube-apiserver-client-kubelet](approve); \
            signers.certificates.k8s.io[kubernetes.io/kube-apiserver-client|kubernetes.io/kube-apiserver-client-kubelet|kubernetes.io/kubelet-serving|kubernetes.io/legacy-unknown](sign); \
            subjectaccessreviews.authorization.k8s.io(create); events(create,patch,update)",
        state: State::Done, start: Some(flyball_certificates::cleaning::start),
        ..DEFAULT
    },
    Controller { name: "podcertificaterequest-cleaner-controller", aliases: &[], identity: Some("podcertificaterequestcleaner"),
        gates: &["PodCertificateRequest"],
        watches: "podcertificaterequests.certificates.k8s.io v1beta1",
        writes: "podcertificaterequests.certificates.k8s.io(delete)",
        state: State::Done, start: Some(flyball_certificates::pod_requests::start),
        ..DEFAULT
    },
    Controller { name: "ttl-controller", aliases: &["ttl"], identity: Some("ttl-controller"),
        watches: "nodes",
        writes: "nodes(patch,update); events(create,patch,update)",
        state: State::Done, start: Some(flyball_node::ttl::start),
        ..DEFAULT
    },
    Controller { name: "bootstrap-signer-controller", aliases: &["bootstrapsigner"], identity: Some("bootstrap-signer"),
        on_by_default: false,
        watches: "secrets (type bootstrap.kubernetes.io/token in kube-system); configmaps (kube-public/cluster-info)",
        writes: "configmaps[cluster-info] in kube-public(update); events in kube-public(create,patch,update)",
        state: State::Done, start: Some(flyball_certificates::bootstrap_signer::start),
        ..DEFAULT
    },
    Controller { name: "token-cleaner-controller", aliases: &["tokencleaner"], identity: Some("token-cleaner"),
        on_by_default: false,
        watches: "secrets (kube-system)",
        writes: "secrets in kube-system(delete); events in kube-system(create,patch,update)",
        state: State::Done, start: Some(flyball_certificates::token_cleaner::start),
        ..DEFAULT
    },
    Controller { name: "node-ipam-controller", aliases: &["nodeipam"], identity: Some("node-controller"),
        watches: "nodes",
        writes: "nodes(delete,patch,update); nodes/status(patch,update); pods/status(patch,update); pods(delete); \
            events(create,patch,update)",
        state: State::Done, start: Some(flyball_node::ipam::start),
        ..DEFAULT
    },
    Controller { name: "node-lifecycle-controller", aliases: &["nodelifecycle"], identity: Some("node-controller"),
        watches: "leases.coordination.k8s.io (all; reads kube-node-lease); pods; nodes; daemonsets.apps",
        writes: "nodes(delete,patch,update); nodes/status(patch,update); pods/status(patch,update); pods(delete); \
            events(create,patch,update)",
        state: State::Done, start: Some(flyball_node::lifecycle::start),
        ..DEFAULT
    },
    Controller { name: "service-lb-controller", aliases: &["service"], identity: None,
        state: State::Cloud,
        ..DEFAULT
    },
    Controller { name: "node-route-controller", aliases: &["route"], identity: None,
        state: State::Cloud,
        ..DEFAULT
    },
    Controller { name: "cloud-node-lifecycle-controller", aliases: &["cloud-node-lifecycle"], identity: None,
        state: State::Cloud,
        ..DEFAULT
    },
    Controller { name: "persistentvolume-binder-controller", aliases: &["persistentvolume-binder"], identity: Some("persistent-volume-binder"),
        watches: "persistentvolumes; persistentvolumeclaims; storageclasses.storage.k8s.io; pods; nodes",
        writes: "persistentvolumes(create,delete,update); persistentvolumes/status(update); \
            persistentvolumeclaims(update); persistentvolumeclaims/status(update); pods(create,delete); \
            events(create,patch,update)",
        state: State::Done, start: Some(flyball_storage::binder::start),
        ..DEFAULT
    },
    Controller { name: "persistentvolume-attach-detach-controller", aliases: &["attachdetach"], identity: Some("attachdetach-controller"),
        watches: "pods; nodes; persistentvolumeclaims; persistentvolumes; csinodes, csidrivers, \
            volumeattachments.storage.k8s.io",
        writes: "nodes/status(patch,update); events(create,patch,update); \
            volumeattachments.storage.k8s.io(create,delete)",
        state: State::Done, start: Some(flyball_storage::attach_detach::start),
        ..DEFAULT
    },
    Controller { name: "persistentvolume-expander-controller", aliases: &["persistentvolume-expander"], identity: Some("expand-controller"),
        watches: "persistentvolumeclaims",
        writes: "persistentvolumes(patch,update); persistentvolumeclaims/status(patch,update); \
            events(create,patch,update)",
        state: State::Done, start: Some(flyball_storage::expander::start),
        ..DEFAULT
    },
    Controller { name: "clusterrole-aggregation-controller", aliases: &["clusterrole-aggregation"], identity: Some("clusterrole-aggregation-controller"),
        watches: "clusterroles.rbac.authorization.k8s.io",
        writes: "clusterroles.rbac.authorization.k8s.io(escalate,patch,update)",
        state: State::Done, start: Some(flyball_identity::clusterrole_aggregation::start),
        ..DEFAULT
    },
    Controller { name: "persistentvolumeclaim-protection-controller", aliases: &["pvc-protection"], identity: Some("pvc-protection-controller"),
        watches: "persistentvolumeclaims; pods",
        writes: "persistentvolumeclaims(update); persistentvolumeclaims/status(update); events(create,patch,update)",
        state: State::Done, start: Some(flyball_storage::pvc_protection::start),
        ..DEFAULT
    },
    Controller { name: "persistentvolume-protection-controller", aliases: &["pv-protection"], identity: Some("pv-protection-controller"),
        watches: "persistentvolumes",
        writes: "persistentvolumes(update); events(create,patch,update)",
        state: State::Done, start: Some(flyball_storage::pv_protection::start),
        ..DEFAULT
    },
    Controller { name: "volumeattributesclass-protection-controller", aliases: &[], identity: Some("volumeattributesclass-protection-controller"),
        gates: &["VolumeAttributesClass"],
        watches: "persistentvolumeclaims; persistentvolumes; volumeattributesclasses.storage.k8s.io",
        writes: "volumeattributesclasses.storage.k8s.io(update); events(create,patch,update)",
        state: State::Done, start: Some(flyball_storage::vac_protection::start),
        ..DEFAULT
    },
    Controller { name: "ttl-after-finished-controller", aliases: &["ttl-after-finished"], identity: Some("ttl-after-finished-controller"),
        watches: "jobs.batch",
        writes: "jobs.batch(delete); events(create,patch,update)",
        state: State::Done, start: Some(flyball_batch::ttlafterfinished::start),
        ..DEFAULT
    },
    Controller { name: "root-ca-certificate-publisher-controller", aliases: &["root-ca-cert-publisher"], identity: Some("root-ca-cert-publisher"),
        watches: "configmaps; namespaces",
        writes: "configmaps(create,update); events(create,patch,update)",
        state: State::Done, start: Some(flyball_identity::root_ca::start),
        ..DEFAULT
    },
    Controller { name: "kube-apiserver-serving-clustertrustbundle-publisher-controller", aliases: &[], identity: Some("kube-apiserver-serving-clustertrustbundle-publisher"),
        gates: &["ClusterTrustBundle"],
        watches: "clustertrustbundles.certificates.k8s.io v1beta1, else v1alpha1 (own filtered informer)",
        writes: "clustertrustbundles.certificates.k8s.io(create,delete,update); \
            signers.certificates.k8s.io[kubernetes.io/kube-apiserver-serving](attest); \
            events(create,patch,update)",
        state: State::Done, start: Some(flyball_certificates::trust_bundle::start),
        ..DEFAULT
    },
    Controller { name: "ephemeral-volume-controller", aliases: &["ephemeral-volume"], identity: Some("ephemeral-volume-controller"),
        watches: "pods; persistentvolumeclaims",
        writes: "pods/finalizers(update); persistentvolumeclaims(create); events(create,patch,update)",
        state: State::Done, start: Some(flyball_storage::ephemeral_volume::start),
        ..DEFAULT
    },
    Controller { name: "storageversion-garbage-collector-controller", aliases: &["storage-version-gc"], identity: Some("storage-version-garbage-collector"),
        gates: &["APIServerIdentity", "StorageVersionAPI"],
        watches: "leases.coordination.k8s.io; storageversions.internal.apiserver.k8s.io",
        writes: "storageversions.internal.apiserver.k8s.io(delete,patch,update); \
            storageversions/status.internal.apiserver.k8s.io(patch,update)",
        state: State::Done, start: Some(flyball_lifecycle::storage_version_gc::start),
        ..DEFAULT
    },
    Controller { name: "resourceclaim-controller", aliases: &["resource-claim-controller"], identity: Some("resource-claim-controller"),
        gates: &["DynamicResourceAllocation"],
        watches: "pods; podgroups.scheduling.k8s.io v1alpha2 (with DRAWorkloadResourceClaims); resourceclaims, \
            resourceclaimtemplates.resource.k8s.io",
        writes: "pods/finalizers(update); resourceclaims.resource.k8s.io(create,delete,patch,update); \
            resourceclaims/status.resource.k8s.io(patch,update); pods/status(patch,update); \
            events(create,patch,update); resourceclaims/binding.resource.k8s.io(patch,update)",
        state: State::Done, start: Some(flyball_resource::claim::start),
        ..DEFAULT
    },
    Controller { name: "resourcepoolstatusrequest-controller", aliases: &[], identity: Some("resourcepoolstatusrequest-controller"),
        gates: &["DRAResourcePoolStatus"],
        watches: "resourcepoolstatusrequests v1alpha3, resourceslices, resourceclaims.resource.k8s.io",
        writes: "resourcepoolstatusrequests.resource.k8s.io(delete); \
            resourcepoolstatusrequests/status.resource.k8s.io(patch,update); events(create,patch,update)",
        state: State::Done, start: Some(flyball_resource::pool_status::start),
        ..DEFAULT
    },
    Controller { name: "device-taint-eviction-controller", aliases: &[], identity: Some("device-taint-eviction-controller"),
        gates: &["DynamicResourceAllocation", "DRADeviceTaints"],
        watches: "pods; resourceclaims, resourceslices, deviceclasses.resource.k8s.io v1; \
            devicetaintrules.resource.k8s.io v1beta2 (with DRADeviceTaintRules)",
        writes: "pods(delete); pods/status(patch,update); events(create,patch,update); \
            devicetaintrules/status.resource.k8s.io(patch,update) when DRADeviceTaintRules",
        state: State::Done, start: Some(flyball_resource::taint_eviction::start),
        ..DEFAULT
    },
    Controller { name: "legacy-serviceaccount-token-cleaner-controller", aliases: &["legacy-service-account-token-cleaner"], identity: Some("legacy-service-account-token-cleaner"),
        watches: "serviceaccounts; secrets; pods",
        writes: "secrets(delete,patch)",
        state: State::Done, start: Some(flyball_identity::legacy_token_cleaner::start),
        ..DEFAULT
    },
    Controller { name: "validatingadmissionpolicy-status-controller", aliases: &[], identity: Some("validatingadmissionpolicy-status-controller"),
        watches: "validatingadmissionpolicies.admissionregistration.k8s.io v1",
        writes: "validatingadmissionpolicies/status.admissionregistration.k8s.io(patch,update); \
            events(create,patch,update)",
        state: State::Done, start: Some(flyball_policy::admission_policy::start),
        ..DEFAULT
    },
    Controller { name: "taint-eviction-controller", aliases: &[], identity: Some("node-controller"),
        gates: &["SeparateTaintEvictionController"],
        watches: "pods; nodes",
        writes: "nodes(delete,patch,update); nodes/status(patch,update); pods/status(patch,update); pods(delete); \
            events(create,patch,update)",
        state: State::Done, start: Some(flyball_node::tainteviction::start),
        ..DEFAULT
    },
    Controller { name: "service-cidr-controller", aliases: &[], identity: Some("service-cidrs-controller"),
        gates: &["MultiCIDRServiceAllocator"],
        watches: "servicecidrs, ipaddresses.networking.k8s.io v1",
        writes: "servicecidrs.networking.k8s.io(patch,update); \
            servicecidrs/finalizers.networking.k8s.io(patch,update); \
            servicecidrs/status.networking.k8s.io(patch,update); events(create,patch,update)",
        state: State::Done, start: Some(flyball_network::service_cidr::start),
        ..DEFAULT
    },
    Controller { name: "storage-version-migrator-controller", aliases: &["svm"], identity: Some("storage-version-migrator-controller"),
        gates: &["StorageVersionMigrator"],
        watches: "storageversionmigrations.storagemigration.k8s.io v1beta1; garbage-collector graph",
        writes: "*.*(create,patch); customresourcedefinitions/status.apiextensions.k8s.io(patch); \
            storageversionmigrations/status.storagemigration.k8s.io(update)",
        pace: Pace { qps: 20.0, burst: 100 },
        state: State::Done, start: Some(flyball_lifecycle::storage_version_migrator::start),
        ..DEFAULT
    },
    Controller { name: "selinux-warning-controller", aliases: &[], identity: Some("selinux-warning-controller"),
        gates: &["SELinuxChangePolicy"],
        on_by_default: false,
        watches: "pods; persistentvolumeclaims; persistentvolumes; csidrivers.storage.k8s.io",
        writes: "events(create,patch,update)",
        state: State::Done, start: Some(flyball_storage::selinux_warning::start),
        ..DEFAULT
    },
];

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
