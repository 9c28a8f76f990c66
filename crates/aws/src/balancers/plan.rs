//! The steps from what there is of a load balancer to what its Service asks for. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flyball_api::{Key, Node, Object, Service};
use flyball_cloud::default_name;
use smol_str::{SmolStr, format_smolstr};

use crate::config::{LoadBalancers, Scheme};
use crate::ec2::instance_id;

/// Chooses the scheme of one load balancer.
pub const SCHEME: &str = "service.beta.kubernetes.io/aws-load-balancer-scheme";
/// Names of target groups have 32 characters; the rest is for port and protocol.
const LONGEST_PREFIX: usize = 20;

/// The load balancer that a Service asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub name: String,
    pub service: Key,
    pub scheme: Scheme,
    pub ports: Vec<Port>,
    /// The machines of its nodes.
    pub machines: BTreeSet<SmolStr>,
    pub health: Health,
    /// Whether a client stays with its machine.
    pub is_sticky: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    pub protocol: Protocol,
    pub port: u16,
    pub node_port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
    /// Both, on the same port.
    TcpUdp,
    /// Not ours.
    Other,
}

impl Protocol {
    /// As AWS writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::TcpUdp => "TCP_UDP",
            Self::Other => "",
        }
    }

    pub fn named(name: &str) -> Self {
        let all = [Self::Tcp, Self::Udp, Self::TcpUdp];
        all.into_iter().find(|protocol| protocol.name() == name).unwrap_or(Self::Other)
    }
}

/// Where a target says over HTTP whether it takes part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    pub port: u16,
    pub path: SmolStr,
}

/// What a Service asks for that cannot be done here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    #[error("port {port}: protocol {protocol} is not supported, only TCP and UDP are")]
    Protocol { port: i32, protocol: SmolStr },
    #[error("port {0} has no node port, which allocateLoadBalancerNodePorts: true would give it")]
    NoNodePort(i32),
    #[error(
        "port {0} has different node ports for TCP and UDP; a load balancer of AWS needs the same for both"
    )]
    TwoNodePorts(u16),
    #[error(
        "loadBalancerSourceRanges is not supported, since security groups are not managed; leave it empty, and allow the clients in the \
         security groups of the nodes"
    )]
    SourceRanges,
    #[error("loadBalancerIP is not supported: AWS chooses the addresses")]
    Address,
    #[error("IPv6 alone is not supported; ipFamilies must have IPv4")]
    OnlyIpv6,
    #[error("the annotation {SCHEME} is {0:?}; it must be internet-facing or internal")]
    Scheme(String),
}

impl Wanted {
    pub fn new(
        service: &Service,
        nodes: &[Arc<Node>],
        settings: &LoadBalancers,
    ) -> Result<Self, Unsupported> {
        let spec = &service.spec;
        if spec.load_balancer_source_ranges.iter().any(|range| range != "0.0.0.0/0") {
            return Err(Unsupported::SourceRanges);
        }
        if !spec.load_balancer_ip.is_empty() {
            return Err(Unsupported::Address);
        }
        if !spec.ip_families.is_empty() && !spec.ip_families.iter().any(|family| family == "IPv4") {
            return Err(Unsupported::OnlyIpv6);
        }
        let local = u16::try_from(spec.health_check_node_port).ok().filter(|port| *port > 0);
        let local = local.filter(|_| spec.external_traffic_policy == "Local");
        let health = match local {
            Some(port) => Health { port, path: "/healthz".into() },
            None => Health {
                port: settings.health_check.port.get(),
                path: settings.health_check.path.0.0.clone(),
            },
        };
        let machines = nodes.iter().filter_map(|node| instance_id(&node.spec.provider_id));
        Ok(Self {
            name: default_name(service),
            service: service.key(),
            scheme: scheme(service, settings.scheme)?,
            ports: ports(service)?,
            machines: machines.map(SmolStr::from).collect(),
            health,
            is_sticky: spec.session_affinity == "ClientIP",
        })
    }

    fn group_name(&self, port: &Port) -> SmolStr {
        let protocol = match port.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::TcpUdp | Protocol::Other => "both",
        };
        format_smolstr!("{}{}-{protocol}", group_prefix(&self.name), port.port)
    }
}

/// What the names of all target groups of a load balancer begin with.
pub fn group_prefix(balancer: &str) -> String {
    balancer.chars().take(LONGEST_PREFIX).chain(['-']).collect()
}

fn scheme(service: &Service, default: Scheme) -> Result<Scheme, Unsupported> {
    match service.metadata.annotations.get(SCHEME) {
        None => Ok(default),
        Some(text) => [Scheme::InternetFacing, Scheme::Internal]
            .into_iter()
            .find(|scheme| scheme.name() == text)
            .ok_or_else(|| Unsupported::Scheme(text.to_owned())),
    }
}

/// The ports in order. AWS has TCP and UDP on the same port only as one.
fn ports(service: &Service) -> Result<Vec<Port>, Unsupported> {
    let mut ports: BTreeMap<u16, Port> = BTreeMap::new();
    for port in &service.spec.ports {
        let protocol = match port.protocol.as_str() {
            "" | "TCP" => Protocol::Tcp,
            "UDP" => Protocol::Udp,
            _ => return Err(Unsupported::Protocol { port: port.port, protocol: port.protocol.clone() }),
        };
        let number = |number: i32| u16::try_from(number).unwrap_or_default();
        let new = Port { protocol, port: number(port.port), node_port: number(port.node_port) };
        if new.node_port == 0 {
            return Err(Unsupported::NoNodePort(port.port));
        }
        match ports.get_mut(&new.port) {
            Some(other) if other.node_port != new.node_port => {
                return Err(Unsupported::TwoNodePorts(new.port));
            }
            Some(other) if other.protocol != new.protocol => other.protocol = Protocol::TcpUdp,
            Some(_) => {}
            None => {
                ports.insert(new.port, new);
            }
        }
    }
    Ok(ports.into_values().collect())
}

/// What there is of a load balancer besides itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    pub groups: Vec<Group>,
    pub listeners: Vec<Listener>,
}

/// A target group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    pub arn: String,
    pub name: SmolStr,
    /// `None`: it is checked in another way.
    pub health: Option<Health>,
    pub is_sticky: bool,
    pub targets: BTreeSet<Target>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    pub arn: String,
    pub port: u16,
    pub protocol: Protocol,
    /// The ARN of the group that it forwards to.
    pub group: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    pub instance: SmolStr,
    pub port: u16,
}

/// Groups are named, since those that are made first have no ARN yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    CreateGroup { name: SmolStr, protocol: Protocol, port: u16 },
    SetHealth { group: SmolStr },
    SetSticky { group: SmolStr, is_sticky: bool },
    Register { group: SmolStr, targets: Vec<Target> },
    DeleteListener { arn: String },
    CreateListener { protocol: Protocol, port: u16, group: SmolStr },
    ModifyListener { arn: String, group: SmolStr },
    Deregister { group: SmolStr, targets: Vec<Target> },
    DeleteGroup { group: SmolStr },
}

/// The steps in order: targets are there before packets come, and go when none come any more.
pub fn plan(wanted: &Wanted, observed: &Observed) -> Vec<Step> {
    let (mut before, mut after) = (vec![], vec![]);
    for port in &wanted.ports {
        let (name, targets) = (wanted.group_name(port), targets(wanted, port));
        let none = Group { name: name.clone(), ..Group::default() };
        let found = observed.groups.iter().find(|group| group.name == name);
        let group = found.unwrap_or(&none);
        match found {
            None => before.push(Step::CreateGroup {
                name: name.clone(),
                protocol: port.protocol,
                port: port.node_port,
            }),
            Some(group) if group.health.as_ref() != Some(&wanted.health) => {
                before.push(Step::SetHealth { group: name.clone() });
            }
            Some(_) => {}
        }
        if group.is_sticky != wanted.is_sticky {
            before.push(Step::SetSticky { group: name.clone(), is_sticky: wanted.is_sticky });
        }
        let new: Vec<Target> = targets.difference(&group.targets).cloned().collect();
        if !new.is_empty() {
            before.push(Step::Register { group: name.clone(), targets: new });
        }
        let old: Vec<Target> = group.targets.difference(&targets).cloned().collect();
        if !old.is_empty() {
            after.push(Step::Deregister { group: name, targets: old });
        }
    }
    before.extend(listeners(wanted, observed));
    let is_wanted = |group: &&Group| wanted.ports.iter().any(|port| wanted.group_name(port) == group.name);
    let unwanted = observed.groups.iter().filter(|group| !is_wanted(group));
    after.extend(unwanted.map(|group| Step::DeleteGroup { group: group.name.clone() }));
    before.into_iter().chain(after).collect()
}

fn targets(wanted: &Wanted, port: &Port) -> BTreeSet<Target> {
    let target = |machine: &SmolStr| Target { instance: machine.clone(), port: port.node_port };
    wanted.machines.iter().map(target).collect()
}

/// The protocol of a listener is not changed: it is made again.
fn listeners(wanted: &Wanted, observed: &Observed) -> Vec<Step> {
    let same = |listener: &Listener| {
        wanted.ports.iter().find(|port| (port.port, port.protocol) == (listener.port, listener.protocol))
    };
    let gone = observed.listeners.iter().filter(|listener| same(listener).is_none());
    let gone = gone.map(|listener| Step::DeleteListener { arn: listener.arn.clone() });
    let made = wanted.ports.iter().filter_map(|port| {
        let group = wanted.group_name(port);
        let found =
            observed.listeners.iter().find(|listener| same(listener).is_some_and(|same| same == port));
        let arn = observed.groups.iter().find(|other| other.name == group).map(|other| &other.arn);
        match found {
            None => Some(Step::CreateListener { protocol: port.protocol, port: port.port, group }),
            Some(listener) if Some(&listener.group) != arn => {
                Some(Step::ModifyListener { arn: listener.arn.clone(), group })
            }
            Some(_) => None,
        }
    });
    gone.chain(made).collect()
}

/// The steps that leave nothing but the load balancer itself. It goes last: as long as it is there, the rest is found.
pub fn plan_deletion(observed: &Observed) -> Vec<Step> {
    let listeners =
        observed.listeners.iter().map(|listener| Step::DeleteListener { arn: listener.arn.clone() });
    let groups = observed.groups.iter().map(|group| Step::DeleteGroup { group: group.name.clone() });
    listeners.chain(groups).collect()
}
