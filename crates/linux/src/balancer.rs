//! A load balancer as it should be: what a Service and its nodes ask for. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use flyball_api::service::{LoadBalancerIngress, LoadBalancerStatus};
use flyball_api::{Key, Node, Object, Service};
use ipnet::IpNet;
use smol_str::{SmolStr, format_smolstr};

/// The wanted state of a Service's load balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balancer {
    pub service: Key,
    pub addresses: Vec<Held>,
    pub ports: Vec<Port>,
    /// Whether a client stays with its backend.
    pub is_sticky: bool,
    /// The clients that may use it; all if empty.
    pub sources: Vec<IpNet>,
    pub backends: Vec<Backend>,
    /// The port on which a node reports whether it has endpoints; `None` if every node forwards to others.
    pub health_check: Option<u16>,
    /// Whether backends see the client's address. Their replies have to come back through the gateway.
    pub preserves_client: bool,
}

/// An address that the gateway holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    pub address: IpAddr,
    pub interface: SmolStr,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    pub protocol: Protocol,
    pub port: u16,
    pub node_port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Tcp,
    Udp,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    pub node: SmolStr,
    pub addresses: Vec<IpAddr>,
    /// Whether it has reported that it has no endpoint.
    pub is_idle: bool,
}

/// The most ports of a Service, and the most source ranges. Neither is limited by the API server, and all gateways pay for them.
const MOST_PORTS: usize = 256;
const MOST_SOURCES: usize = 1000;
/// What the rules of an address cost, in entries of maps.
const COST_OF_AN_ADDRESS: usize = 50;
/// Where source ranges were written before there was a field for them.
const SOURCES_ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// How a node counts whose health-check node port was not queried yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// As without endpoints: for a new Service or node, until the first response.
    Idle,
    /// As with endpoints: after a takeover, so that existing traffic continues.
    Usable,
}

/// What a Service asks for that cannot be done here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    #[error("port {port}: protocol {protocol} is not supported, only TCP and UDP are")]
    Protocol { port: i32, protocol: SmolStr },
    #[error("port {0} has no node port; set allocateLoadBalancerNodePorts: true")]
    NoNodePort(i32),
    #[error("loadBalancerSourceRanges: {0:?} is not a range such as 192.0.2.0/24")]
    SourceRange(SmolStr),
    #[error("it has {0} ports; at most {MOST_PORTS} are supported")]
    ManyPorts(usize),
    #[error(
        "it has {0} source ranges; at most {MOST_SOURCES} are supported, after those that overlap are merged"
    )]
    ManySources(usize),
}

impl Balancer {
    /// The load balancer of a Service with these nodes. With `may_preserve`, Services of `externalTrafficPolicy: Local` see the
    /// addresses of clients.
    pub fn new(
        service: &Service,
        addresses: Vec<Held>,
        nodes: &[Arc<Node>],
        may_preserve: bool,
    ) -> Result<Self, Unsupported> {
        let spec = &service.spec;
        if spec.ports.len() > MOST_PORTS {
            return Err(Unsupported::ManyPorts(spec.ports.len()));
        }
        let ports = spec.ports.iter().map(|port| {
            let number = |number: i32| u16::try_from(number).unwrap_or_default();
            let protocol = match port.protocol.as_str() {
                "" | "TCP" => Protocol::Tcp,
                "UDP" => Protocol::Udp,
                _ => return Err(Unsupported::Protocol { port: port.port, protocol: port.protocol.clone() }),
            };
            match number(port.node_port) {
                0 => Err(Unsupported::NoNodePort(port.port)),
                node_port => Ok(Port { protocol, port: number(port.port), node_port }),
            }
        });
        let is_local = spec.external_traffic_policy == "Local";
        let health_check = u16::try_from(spec.health_check_node_port).ok().filter(|port| *port > 0);
        Ok(Self {
            service: service.key(),
            addresses,
            ports: ports.collect::<Result<_, _>>()?,
            is_sticky: spec.session_affinity == "ClientIP",
            sources: sources(service)?,
            backends: backends(nodes),
            health_check: health_check.filter(|_| is_local),
            preserves_client: is_local && may_preserve,
        })
    }

    /// What it costs a gateway, in entries of the kernel's maps.
    pub fn weight(&self) -> usize {
        // Without health checks, all have the nodes in common.
        let nodes = self.health_check.map_or(0, |_| self.backends.len());
        self.addresses.len() * (COST_OF_AN_ADDRESS + self.ports.len() + nodes) + 2 * self.sources.len()
    }

    /// The backends that connections may be sent to.
    pub fn usable_backends(&self) -> impl Iterator<Item = &Backend> {
        self.backends.iter().filter(|backend| !backend.is_idle)
    }

    /// Where each node reports whether it has endpoints.
    pub fn health_checks(&self) -> impl Iterator<Item = SocketAddr> {
        let target = |backend: &Backend| Some((*backend.addresses.first()?, self.health_check?).into());
        self.backends.iter().filter_map(target)
    }

    /// Records which nodes have no endpoints, by what their health checks answered; whether that is a change. A node of which
    /// nothing is known counts as `unknown`.
    pub fn set_idle(&mut self, answers: &BTreeMap<SocketAddr, bool>, unknown: Unknown) -> bool {
        let Some(port) = self.health_check else { return false };
        let before = self.backends.clone();
        for backend in &mut self.backends {
            let target = backend.addresses.first().map(|address| SocketAddr::from((*address, port)));
            let has_endpoints = target.and_then(|target| answers.get(&target).copied());
            backend.is_idle = !has_endpoints.unwrap_or(unknown == Unknown::Usable);
        }
        before != self.backends
    }

    pub fn status(&self) -> LoadBalancerStatus {
        let entry = |held: &Held| LoadBalancerIngress {
            ip: format_smolstr!("{}", held.address),
            ..LoadBalancerIngress::default()
        };
        LoadBalancerStatus { ingress: self.addresses.iter().map(entry).collect() }
    }
}

impl Backend {
    /// Its first address of a family.
    pub fn address(&self, is_v6: bool) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|address| address.is_ipv6() == is_v6)
    }
}

/// The clients that may use a Service, as few ranges as possible; all if there are none.
pub fn sources(service: &Service) -> Result<Vec<IpNet>, Unsupported> {
    let field = &service.spec.load_balancer_source_ranges;
    // Upstream: cloud-provider/service/helpers: the annotation counts only if the field is empty.
    let annotation = service.metadata.annotations.get(SOURCES_ANNOTATION).unwrap_or_default();
    let annotated = annotation.split(',').filter(|_| field.is_empty() && !annotation.trim().is_empty());
    let texts = field.iter().map(|range| range.as_str()).chain(annotated).map(str::trim);
    let ranges = texts.map(|range| range.parse().map_err(|_| Unsupported::SourceRange(range.into())));
    let ranges = IpNet::aggregate(&ranges.collect::<Result<Vec<IpNet>, _>>()?);
    if ranges.len() > MOST_SOURCES { Err(Unsupported::ManySources(ranges.len())) } else { Ok(ranges) }
}

/// The nodes with their internal addresses.
fn backends(nodes: &[Arc<Node>]) -> Vec<Backend> {
    let backend = |node: &Arc<Node>| Backend {
        node: node.metadata.name.clone(),
        addresses: node_addresses(node),
        is_idle: false,
    };
    nodes.iter().map(backend).collect()
}

/// The addresses under which a node is reached.
pub fn node_addresses(node: &Node) -> Vec<IpAddr> {
    internal(node.status.addresses.iter().map(|a| (&*a.type_, &*a.address)))
}

/// The internal addresses among addresses with their types.
pub fn internal<'a>(addresses: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<IpAddr> {
    addresses
        .filter(|(kind, _)| *kind == "InternalIP")
        .filter_map(|(_, address)| address.parse().ok())
        .collect()
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Tcp { "tcp" } else { "udp" })
    }
}
