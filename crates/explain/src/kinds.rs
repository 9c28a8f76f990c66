//! The resources that rules know by name.

use flyball_api::ResourceType;

/// Kinds that rules read. Others are found by discovery.
#[rustfmt::skip]
pub const KNOWN: &[ResourceType] = &[
    ResourceType::new("", "v1", "pods", "Pod", true),
    ResourceType::new("", "v1", "nodes", "Node", false),
    ResourceType::new("", "v1", "events", "Event", true),
    ResourceType::new("", "v1", "services", "Service", true),
    ResourceType::new("", "v1", "namespaces", "Namespace", false),
    ResourceType::new("", "v1", "resourcequotas", "ResourceQuota", true),
    ResourceType::new("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true),
    ResourceType::new("", "v1", "persistentvolumes", "PersistentVolume", false),
    ResourceType::new("", "v1", "replicationcontrollers", "ReplicationController", true),
    ResourceType::new("apps", "v1", "deployments", "Deployment", true),
    ResourceType::new("apps", "v1", "replicasets", "ReplicaSet", true),
    ResourceType::new("apps", "v1", "statefulsets", "StatefulSet", true),
    ResourceType::new("apps", "v1", "daemonsets", "DaemonSet", true),
    ResourceType::new("batch", "v1", "jobs", "Job", true),
    ResourceType::new("batch", "v1", "cronjobs", "CronJob", true),
    ResourceType::new("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", true),
    ResourceType::new("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true),
    ResourceType::new("storage.k8s.io", "v1", "storageclasses", "StorageClass", false),
    ResourceType::new("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", false),
    ResourceType::new("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", true),
    ResourceType::new("coordination.k8s.io", "v1", "leases", "Lease", true),
    ResourceType::new("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", false),
    ResourceType::new("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", false),
    ResourceType::new("apiregistration.k8s.io", "v1", "apiservices", "APIService", false),
    ResourceType::new("networking.k8s.io", "v1", "ingresses", "Ingress", true),
    ResourceType::new("networking.k8s.io", "v1", "ingressclasses", "IngressClass", false),
];

/// The known resource of this kind.
pub fn known(kind: &str) -> Option<&'static ResourceType> {
    KNOWN.iter().find(|resource| resource.kind == kind)
}

/// The group of a known kind; empty otherwise.
pub fn group_of(kind: &str) -> &'static str {
    known(kind).map_or("", |resource| resource.group.as_str())
}
