//! Services.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::condition::Condition;
use crate::de::{null_default, skip};
use crate::{IntOrString, Labels, ObjectMeta, RawJson, WithRaw, resource};

/// A v1 Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Service {
    pub metadata: ObjectMeta,
    pub spec: WithRaw<ServiceSpec>,
    pub status: ServiceStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceSpec {
    #[serde(deserialize_with = "null_default")]
    pub ports: Vec<ServicePort>,
    /// The labels of its pods; absent if another component manages the endpoints.
    pub selector: Option<Labels>,
    /// The first of `cluster_ips`; the text `None` for a headless Service.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: SmolStr,
    #[serde(rename = "clusterIPs", deserialize_with = "null_default")]
    pub cluster_ips: Vec<SmolStr>,
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
    #[serde(rename = "type")]
    pub type_: SmolStr,
    #[serde(rename = "externalIPs", deserialize_with = "null_default")]
    pub external_ips: Vec<SmolStr>,
    /// `None` or `ClientIP`.
    pub session_affinity: SmolStr,
    /// Details of the affinity, as served.
    pub session_affinity_config: Option<RawJson>,
    #[serde(rename = "loadBalancerIP")]
    pub load_balancer_ip: SmolStr,
    #[serde(deserialize_with = "null_default")]
    pub load_balancer_source_ranges: Vec<SmolStr>,
    pub load_balancer_class: Option<SmolStr>,
    pub external_name: SmolStr,
    /// `Cluster` or `Local`.
    pub external_traffic_policy: SmolStr,
    /// `Cluster` or `Local`.
    pub internal_traffic_policy: Option<SmolStr>,
    pub health_check_node_port: i32,
    pub publish_not_ready_addresses: bool,
    /// `IPv4`, `IPv6`.
    #[serde(deserialize_with = "null_default")]
    pub ip_families: Vec<SmolStr>,
    /// `SingleStack`, `PreferDualStack` or `RequireDualStack`.
    pub ip_family_policy: Option<SmolStr>,
    pub allocate_load_balancer_node_ports: Option<bool>,
    pub traffic_distribution: Option<SmolStr>,
}

/// A port of a [`Service`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServicePort {
    /// May be empty if it is the only port.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub name: SmolStr,
    /// `TCP`, `UDP` or `SCTP`.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub protocol: SmolStr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<SmolStr>,
    pub port: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_port: Option<IntOrString>,
    #[serde(skip_serializing_if = "skip::zero")]
    pub node_port: i32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceStatus {
    #[serde(skip_serializing_if = "skip::default")]
    pub load_balancer: LoadBalancerStatus,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The status of a load balancer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LoadBalancerStatus {
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub ingress: Vec<LoadBalancerIngress>,
}

/// An address of a load balancer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LoadBalancerIngress {
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub ip: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub hostname: SmolStr,
    /// `VIP` or `Proxy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_mode: Option<SmolStr>,
    /// Ports with errors, as served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<RawJson>,
}

resource!(Service, "", "v1", "services", "Service", namespaced);
impl Service {
    /// Whether it has no address of its own.
    pub fn is_headless(&self) -> bool {
        self.spec.cluster_ip == "None"
    }
}
