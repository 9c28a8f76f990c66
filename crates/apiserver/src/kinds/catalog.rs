//! Every built-in resource as a v1.36 server serves it by default: names, verbs, subresources, and its
//! strategy. Groups and resources are in the order of upstream's discovery.

use super::print;
use super::simple::Simple;
use super::validate;
use super::{apps, autoscaling, batch, events, extension, pod, service, storage, various};
use crate::registry::Subresource::{
    Approval, Attach, Binding, EphemeralContainers, Eviction, Exec, Finalize, Log, PortForward, Proxy,
    Resize, Scale, Status, Token,
};
use crate::registry::Verbs::{CreateOnly, NoDeleteCollection, Read};
use crate::registry::{Builtin, NameRule, ResourceInfo};

const ALL: &[&str] = &["all"];
const EXTENSIONS: &[&str] = &["api-extensions"];

const fn ns(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
) -> ResourceInfo {
    ResourceInfo::namespaced(group, version, plural, kind)
}

const fn cl(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
) -> ResourceInfo {
    ResourceInfo::cluster(group, version, plural, kind)
}

/// Every built-in resource, in the order of discovery.
pub fn catalog() -> Vec<Builtin> {
    let parts = [core(), workloads(), access(), network(), storage_and_policy(), extensions(), cluster()];
    parts.into_iter().flatten().collect()
}

#[rustfmt::skip]
fn core() -> Vec<Builtin> {
    let v1 = |plural, kind| ns("", "v1", plural, kind);
    let root = |plural, kind| cl("", "v1", plural, kind);
    vec![
        Builtin::new(v1("bindings", "Binding").verbs(CreateOnly), Simple::plain()),
        Builtin::new(root("componentstatuses", "ComponentStatus").short(&["cs"]).verbs(Read),
            Simple::new(&print::COMPONENT_STATUS).warns("v1 ComponentStatus is deprecated in v1.19+")),
        Builtin::new(v1("configmaps", "ConfigMap").short(&["cm"]),
            Simple::new(&print::CONFIG_MAP).checks(validate::config::config_map)),
        Builtin::new(v1("endpoints", "Endpoints").short(&["ep"]).singular("endpoints"),
            Simple::new(&print::ENDPOINTS).checks(validate::network::endpoints).create_on_update()
                .warns("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")),
        Builtin::new(v1("events", "Event").short(&["ev"]), events::Core),
        Builtin::new(v1("limitranges", "LimitRange").short(&["limits"]),
            Simple::new(&print::NAME_AND_CREATED).checks(validate::config::limit_range).create_on_update()),
        Builtin::new(root("namespaces", "Namespace").short(&["ns"]).verbs(NoDeleteCollection).with(&[Finalize, Status]), various::Namespace),
        Builtin::new(root("nodes", "Node").short(&["no"]).with(&[Proxy, Status]), various::Node),
        Builtin::new(v1("persistentvolumeclaims", "PersistentVolumeClaim").short(&["pvc"]).with(&[Status]), storage::Claim),
        Builtin::new(root("persistentvolumes", "PersistentVolume").short(&["pv"]).with(&[Status]), storage::Volume),
        Builtin::new(v1("pods", "Pod").short(&["po"]).categories(ALL).generation()
            .with(&[Attach, Binding, EphemeralContainers, Eviction, Exec, Log, PortForward, Proxy, Resize, Status]), pod::Pod),
        Builtin::new(v1("podtemplates", "PodTemplate").generation(),
            Simple::new(&print::POD_TEMPLATE).checks(validate::apps::pod_template).content(&["template"])),
        Builtin::new(v1("replicationcontrollers", "ReplicationController").short(&["rc"]).categories(ALL).generation()
            .with(&[Scale, Status]), apps::ReplicationController),
        Builtin::new(v1("resourcequotas", "ResourceQuota").short(&["quota"]).with(&[Status]),
            Simple::new(&print::QUOTA).checks(validate::config::resource_quota)),
        Builtin::new(v1("secrets", "Secret"), various::Secret),
        Builtin::new(v1("serviceaccounts", "ServiceAccount").short(&["sa"]).with(&[Token]), various::ServiceAccount),
        Builtin::new(v1("services", "Service").short(&["svc"]).categories(ALL).with(&[Proxy, Status]), service::Service),
    ]
}

#[rustfmt::skip]
fn workloads() -> Vec<Builtin> {
    let apps = |plural, kind| ns("apps", "v1", plural, kind);
    vec![
        Builtin::new(cl("apiregistration.k8s.io", "v1", "apiservices", "APIService").categories(EXTENSIONS).with(&[Status]),
            Simple::new(&print::API_SERVICE).names(NameRule::PathSegment).checks(validate::extension::api_service)),
        Builtin::new(apps("controllerrevisions", "ControllerRevision"),
            Simple::new(&print::CONTROLLER_REVISION).checks(validate::apps::controller_revision)),
        Builtin::new(apps("daemonsets", "DaemonSet").short(&["ds"]).categories(ALL).generation().with(&[Status]), apps::DaemonSet),
        Builtin::new(apps("deployments", "Deployment").short(&["deploy"]).categories(ALL).generation().with(&[Scale, Status]), apps::Deployment),
        Builtin::new(apps("replicasets", "ReplicaSet").short(&["rs"]).categories(ALL).generation().with(&[Scale, Status]), apps::ReplicaSet),
        Builtin::new(apps("statefulsets", "StatefulSet").short(&["sts"]).categories(ALL).generation().with(&[Scale, Status]), apps::StatefulSet),
        Builtin::new(ns("events.k8s.io", "v1", "events", "Event").short(&["ev"]).stored_as("", "v1"), events::V1),
    ]
}

#[rustfmt::skip]
fn access() -> Vec<Builtin> {
    let review = |group, plural, kind| Builtin::new(cl(group, "v1", plural, kind).verbs(CreateOnly), Simple::plain());
    let hpa = |version| ns("autoscaling", version, "horizontalpodautoscalers", "HorizontalPodAutoscaler")
        .short(&["hpa"]).categories(ALL).with(&[Status]);
    vec![
        review("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
        review("authentication.k8s.io", "tokenreviews", "TokenReview"),
        Builtin::new(ns("authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview").verbs(CreateOnly), Simple::plain()),
        review("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        review("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
        review("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
        Builtin::new(hpa("v2"), autoscaling::V2),
        Builtin::new(hpa("v1").stored_as("autoscaling", "v2"), autoscaling::V1),
        Builtin::new(ns("batch", "v1", "cronjobs", "CronJob").short(&["cj"]).categories(ALL).generation().with(&[Status]), batch::CronJob),
        Builtin::new(ns("batch", "v1", "jobs", "Job").categories(ALL).generation().with(&[Status]), batch::Job),
        Builtin::new(cl("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest").short(&["csr"])
            .with(&[Approval, Status]), various::SigningRequest),
    ]
}

#[rustfmt::skip]
fn network() -> Vec<Builtin> {
    let root = |plural, kind| cl("networking.k8s.io", "v1", plural, kind);
    let v1 = |plural, kind| ns("networking.k8s.io", "v1", plural, kind);
    vec![
        Builtin::new(root("ingressclasses", "IngressClass").generation(),
            Simple::new(&print::INGRESS_CLASS).checks(validate::network::ingress_class)),
        Builtin::new(v1("ingresses", "Ingress").short(&["ing"]).generation().with(&[Status]),
            Simple::new(&print::INGRESS).checks(validate::network::ingress)),
        Builtin::new(root("ipaddresses", "IPAddress").short(&["ip"]),
            Simple::new(&print::IP_ADDRESS).names(NameRule::PathSegment).checks(validate::network::ip_address)),
        Builtin::new(v1("networkpolicies", "NetworkPolicy").short(&["netpol"]).generation(),
            Simple::new(&print::NETWORK_POLICY).checks(validate::network::network_policy)),
        Builtin::new(root("servicecidrs", "ServiceCIDR").with(&[Status]),
            Simple::new(&print::SERVICE_CIDR).checks(validate::network::service_cidr).status_keeps_metadata()),
    ]
}

#[rustfmt::skip]
fn storage_and_policy() -> Vec<Builtin> {
    let rbac = "rbac.authorization.k8s.io";
    let root = |plural, kind| cl("storage.k8s.io", "v1", plural, kind);
    let role = || Simple::new(&print::NAME_AND_CREATED).names(NameRule::PathSegment).create_on_update();
    let binding = || Simple::new(&print::BINDING).names(NameRule::PathSegment).checks(validate::access::binding).create_on_update();
    vec![
        Builtin::new(ns("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget").short(&["pdb"]).generation().with(&[Status]),
            Simple::new(&print::DISRUPTION_BUDGET).checks(validate::policy::disruption_budget)
                .checks_status(|new, _| validate::status::counts(new)).conditional()),
        Builtin::new(cl(rbac, "v1", "clusterrolebindings", "ClusterRoleBinding"), binding()),
        Builtin::new(cl(rbac, "v1", "clusterroles", "ClusterRole"), role().checks(validate::access::cluster_role)),
        Builtin::new(ns(rbac, "v1", "rolebindings", "RoleBinding"), binding()),
        Builtin::new(ns(rbac, "v1", "roles", "Role"), role().checks(validate::access::role)),
        Builtin::new(root("csidrivers", "CSIDriver"),
            Simple::new(&print::CSI_DRIVER).checks(validate::storage::csi_driver).conditional()),
        Builtin::new(root("csinodes", "CSINode"), Simple::new(&print::CSI_NODE).checks(validate::storage::csi_node).conditional()),
        Builtin::new(ns("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity"),
            Simple::new(&print::NAME_AND_CREATED).checks(validate::storage::csi_capacity).conditional()),
        Builtin::new(root("storageclasses", "StorageClass").short(&["sc"]),
            Simple::new(&print::STORAGE_CLASS).checks(validate::storage::storage_class)),
        Builtin::new(root("volumeattachments", "VolumeAttachment").with(&[Status]),
            Simple::new(&print::ATTACHMENT).checks(validate::storage::attachment).conditional().status_keeps_metadata()),
        Builtin::new(root("volumeattributesclasses", "VolumeAttributesClass").short(&["vac"]),
            storage::AttributesClass),
    ]
}

#[rustfmt::skip]
fn extensions() -> Vec<Builtin> {
    let admission = |plural, kind| cl("admissionregistration.k8s.io", "v1", plural, kind).categories(EXTENSIONS).generation();
    let webhooks = || Simple::new(&print::WEBHOOKS).checks(validate::webhooks::webhooks).conditional().content(&["webhooks"]);
    vec![
        Builtin::new(admission("mutatingadmissionpolicies", "MutatingAdmissionPolicy"), Simple::new(&print::MUTATING_POLICY).checks(validate::registration::mutating_policy).conditional()),
        Builtin::new(admission("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"),
            Simple::new(&print::POLICY_BINDING).checks(validate::registration::mutating_binding).conditional()),
        Builtin::new(admission("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"), webhooks()),
        Builtin::new(admission("validatingadmissionpolicies", "ValidatingAdmissionPolicy").with(&[Status]),
            Simple::new(&print::VALIDATING_POLICY).checks(validate::registration::validating_policy).conditional().status_keeps_metadata()),
        Builtin::new(admission("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
            Simple::new(&print::POLICY_BINDING).checks(validate::registration::validating_binding).conditional()),
        Builtin::new(admission("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"), webhooks()),
        Builtin::new(cl("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition").short(&["crd", "crds"])
            .categories(EXTENSIONS).generation().with(&[Status]), extension::Definition),
    ]
}

#[rustfmt::skip]
fn cluster() -> Vec<Builtin> {
    let flow = |plural, kind| cl("flowcontrol.apiserver.k8s.io", "v1", plural, kind).generation().with(&[Status]);
    let devices = "resource.k8s.io";
    vec![
        Builtin::new(cl("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass").short(&["pc"]).generation(),
            Simple::new(&print::PRIORITY_CLASS).checks(validate::policy::priority_class).content(&[])),
        Builtin::new(ns("coordination.k8s.io", "v1", "leases", "Lease"),
            Simple::new(&print::LEASE).checks(validate::cluster::lease).create_on_update().conditional()),
        Builtin::new(cl("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass"),
            Simple::new(&print::RUNTIME_CLASS).checks(validate::cluster::runtime_class).create_on_update().conditional()),
        Builtin::new(ns("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice").generation(),
            Simple::new(&print::ENDPOINT_SLICE).checks(validate::network::endpoint_slice)
                .content(&["addressType", "endpoints", "ports", "metadata.labels"])),
        Builtin::new(cl(devices, "v1", "deviceclasses", "DeviceClass").generation(), Simple::plain()),
        Builtin::new(ns(devices, "v1", "resourceclaims", "ResourceClaim").with(&[Status]),
            Simple::new(&print::RESOURCE_CLAIM).checks(validate::cluster::resource_claim)
                .checks_status(validate::status::resource_claim).status_keeps_metadata()),
        Builtin::new(ns(devices, "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
            Simple::plain().checks(validate::cluster::resource_claim_template)),
        Builtin::new(cl(devices, "v1", "resourceslices", "ResourceSlice").generation(), various::ResourceSlice),
        Builtin::new(flow("flowschemas", "FlowSchema"), Simple::new(&print::FLOW_SCHEMA).status_keeps_metadata()),
        Builtin::new(flow("prioritylevelconfigurations", "PriorityLevelConfiguration"),
            Simple::new(&print::PRIORITY_LEVEL).status_keeps_metadata()),
    ]
}
