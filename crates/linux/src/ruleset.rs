//! The nftables rules for load balancers, as data: from balancers to a table. Pure.
//!
//! A packet for anything but a load balancer passes a handful of rules, however many load balancers there are: maps lead from
//! the address of one to its own chains. Ranges of clients are sets. So no Service can slow down what is not for it.
//!
//! The text of a rule is kept with it in the kernel, as its comment, and sets are named for their contents. So a table can be
//! compared with another, and `nft list table inet flyball` explains itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use ring::digest::{SHA256, digest};
use smol_str::SmolStr;

use crate::balancer::{Balancer, Protocol};

/// The name of our table, in the family `inet`. Everything in it is ours; nothing outside of it is.
pub const TABLE: &str = "flyball";

/// A table. An empty one is no table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    pub sets: Vec<Set>,
    pub chains: Vec<Chain>,
}

/// A set or a map. Its name is unique to its contents.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Set {
    pub name: String,
    pub elements: Elements,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Elements {
    /// From numbers, from zero, to the addresses of backends.
    Numbered {
        is_v6: bool,
        addresses: Vec<IpAddr>,
    },
    /// From addresses to chains that are jumped to.
    Chains {
        is_v6: bool,
        chains: Vec<(IpAddr, String)>,
    },
    Addresses {
        is_v6: bool,
        addresses: Vec<IpAddr>,
    },
    /// None of them overlaps another.
    Ranges {
        is_v6: bool,
        ranges: Vec<IpNet>,
    },
    Ports(Vec<u16>),
    /// From ports to node ports.
    NodePorts(Vec<(u16, u16)>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    pub name: String,
    /// Where packets enter it; `None` if other chains jump to it.
    pub hook: Option<Hook>,
    pub rules: Vec<Rule>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// Before our destination NAT, for every packet.
    BeforeNat,
    NatPrerouting,
    NatOutput,
    NatPostrouting,
    Input,
    Forward,
}

/// Expressions; a packet that fails one leaves the rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule(pub Vec<Expression>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expression {
    FromInterface(SmolStr),
    /// To the chain of the destination, if the map has one.
    JumpByDestination(InSet),
    DestinationIn(InSet),
    SourceIn(InSet),
    /// The destination before NAT, of a packet whose destination was changed.
    OriginalDestinationIn(InSet),
    /// Of a connection whose destination was not changed.
    NotTranslated,
    PortIn(Protocol, String),
    /// Of any port.
    Protocol(Protocol),
    Jump(&'static str),
    Accept,
    Drop,
    Reject,
    Masquerade,
    /// If the port is in the map of ports, to one of the addresses of the other map.
    Translate {
        protocol: Protocol,
        ports: String,
        map: String,
        is_v6: bool,
        count: u32,
        choice: Choice,
    },
}

/// A set of addresses of one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InSet {
    pub is_v6: bool,
    pub set: String,
}

/// How a backend is chosen for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    Random,
    /// By the client's address, so that a client stays with its backend. Every gateway chooses the same.
    BySource,
}

const SERVICES: &str = "services";
const NODE_PORTS: &str = "node-ports";
/// The chain with the translations of an address.
const TO: &str = "to-";
/// The chain that keeps clients from an address.
const FROM: &str = "from-";

/// The table for these balancers.
pub fn table(balancers: &[&Balancer]) -> Table {
    if balancers.is_empty() {
        return Table::default();
    }
    let mut writing = Writing::default();
    balancers.iter().for_each(|balancer| writing.add(balancer));
    writing.finish()
}

/// The addresses that these rules translate.
pub fn translated(rules: &[(String, String)]) -> BTreeSet<IpAddr> {
    let chains = rules.iter().filter_map(|(chain, _)| chain.strip_prefix(TO));
    chains.filter_map(|address| address.replace('_', ":").parse().ok()).collect()
}

/// A table that is being written.
#[derive(Default)]
struct Writing {
    sets: BTreeSet<Set>,
    /// The chains of single addresses.
    chains: Vec<Chain>,
    to: BTreeMap<IpAddr, String>,
    from: BTreeMap<IpAddr, String>,
    hidden_clients: BTreeSet<IpAddr>,
    /// Where, on which ports, and over which interfaces clients could reach the nodes of a Service with source ranges past the
    /// load balancer: this machine forwards what is for a node.
    guarded: Guarded,
}

#[derive(Default)]
struct Guarded {
    interfaces: BTreeSet<SmolStr>,
    nodes: BTreeSet<IpAddr>,
    ports: BTreeMap<Protocol, BTreeSet<u16>>,
}

impl Writing {
    fn add(&mut self, balancer: &Balancer) {
        for held in &balancer.addresses {
            let address = held.address;
            let translations = self.translations(balancer, address.is_ipv6());
            let to = chain_of(TO, address);
            self.chains.push(Chain { name: to.clone(), hook: None, rules: translations });
            self.to.insert(address, to);
            if !balancer.preserves_client {
                self.hidden_clients.insert(address);
            }
            if !balancer.sources.is_empty() {
                self.limit(balancer, address);
                self.guarded.interfaces.insert(held.interface.clone());
            }
        }
        if !balancer.sources.is_empty() {
            self.guarded.nodes.extend(balancer.backends.iter().flat_map(|backend| &backend.addresses));
            for port in &balancer.ports {
                self.guarded.ports.entry(port.protocol).or_default().insert(port.node_port);
            }
        }
    }

    /// A rule for each protocol, however many ports there are: the kernel takes longer and longer to bind rules to one map.
    fn translations(&mut self, balancer: &Balancer, is_v6: bool) -> Vec<Rule> {
        let addresses: BTreeSet<IpAddr> =
            balancer.usable_backends().flat_map(|backend| backend.address(is_v6)).collect();
        let addresses: Vec<IpAddr> = addresses.into_iter().collect();
        if addresses.is_empty() {
            return vec![];
        }
        let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
        let map = self.set("backends", Elements::Numbered { is_v6, addresses });
        let choice = if balancer.is_sticky { Choice::BySource } else { Choice::Random };
        let mut rules = vec![];
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let of_protocol = balancer.ports.iter().filter(|port| port.protocol == protocol);
            let ports: BTreeMap<u16, u16> = of_protocol.map(|port| (port.port, port.node_port)).collect();
            if !ports.is_empty() {
                let ports = self.set("ports", Elements::NodePorts(ports.into_iter().collect()));
                let map = map.clone();
                rules.push(Rule(vec![Expression::Translate { protocol, ports, map, is_v6, count, choice }]));
            }
        }
        rules
    }

    /// Keeps clients out that `loadBalancerSourceRanges` does not name.
    fn limit(&mut self, balancer: &Balancer, address: IpAddr) {
        let is_v6 = address.is_ipv6();
        let ranges: Vec<IpNet> =
            balancer.sources.iter().copied().filter(|range| range.addr().is_ipv6() == is_v6).collect();
        let mut rules = vec![];
        if !ranges.is_empty() {
            let set = self.set("clients", Elements::Ranges { is_v6, ranges });
            rules.push(Rule(vec![Expression::SourceIn(InSet { is_v6, set }), Expression::Accept]));
        }
        let protocols = [Protocol::Tcp, Protocol::Udp].map(Expression::Protocol);
        rules.extend(protocols.map(|protocol| Rule(vec![protocol, Expression::Drop])));
        let from = chain_of(FROM, address);
        self.chains.push(Chain { name: from.clone(), hook: None, rules });
        self.from.insert(address, from);
    }

    /// Adds a set; its name.
    fn set(&mut self, kind: &str, elements: Elements) -> String {
        let set = named(kind, elements);
        let name = set.name.clone();
        self.sets.insert(set);
        name
    }

    fn finish(mut self) -> Table {
        let all: BTreeSet<IpAddr> = self.to.keys().copied().collect();
        let (to, from, hidden) = (
            std::mem::take(&mut self.to),
            std::mem::take(&mut self.from),
            std::mem::take(&mut self.hidden_clients),
        );
        let services = self.jumps("to", to);
        let sources = self.jumps("from", from);
        let postrouting = self.of_addresses("hidden-clients", hidden, |set| {
            vec![vec![Expression::OriginalDestinationIn(set), Expression::Masquerade]]
        });
        // Only what was not translated is still for such an address here.
        let input = self.of_addresses("held", all, |set| {
            let refuse = |protocol| {
                vec![
                    Expression::DestinationIn(set.clone()),
                    Expression::Protocol(protocol),
                    Expression::Reject,
                ]
            };
            [Protocol::Tcp, Protocol::Udp].map(refuse).into()
        });
        let (node_ports, forward) = self.guards();
        let jump = || vec![Rule(vec![Expression::Jump(SERVICES)])];
        let chain = |name: &str, hook, rules| Chain { name: name.to_owned(), hook, rules };
        self.chains.extend([
            chain(SERVICES, None, services),
            chain(NODE_PORTS, None, node_ports),
            chain("sources", Some(Hook::BeforeNat), sources),
            chain("prerouting", Some(Hook::NatPrerouting), jump()),
            chain("output", Some(Hook::NatOutput), jump()),
            chain("postrouting", Some(Hook::NatPostrouting), postrouting),
            chain("input", Some(Hook::Input), input),
            chain("forward", Some(Hook::Forward), forward),
        ]);
        Table { sets: self.sets.into_iter().collect(), chains: self.chains }
    }

    /// A rule for each family that leads an address to its chain.
    fn jumps(&mut self, kind: &str, chains: BTreeMap<IpAddr, String>) -> Vec<Rule> {
        let mut rules = vec![];
        for is_v6 in [false, true] {
            let of_family = chains.iter().filter(|(address, _)| address.is_ipv6() == is_v6);
            let chains: Vec<_> = of_family.map(|(address, chain)| (*address, chain.clone())).collect();
            if !chains.is_empty() {
                let set = self.set(kind, Elements::Chains { is_v6, chains });
                rules.push(Rule(vec![Expression::JumpByDestination(InSet { is_v6, set })]));
            }
        }
        rules
    }

    /// The rules for the addresses of each family that there are.
    fn of_addresses(
        &mut self,
        kind: &str,
        addresses: BTreeSet<IpAddr>,
        rules: impl Fn(InSet) -> Vec<Vec<Expression>>,
    ) -> Vec<Rule> {
        let mut found = vec![];
        for is_v6 in [false, true] {
            let addresses: Vec<IpAddr> =
                addresses.iter().copied().filter(|address| address.is_ipv6() == is_v6).collect();
            if !addresses.is_empty() {
                let set = self.set(kind, Elements::Addresses { is_v6, addresses });
                found.extend(rules(InSet { is_v6, set }).into_iter().map(Rule));
            }
        }
        found
    }

    /// What keeps clients from the node ports of Services with source ranges: the chain of the ports, and what leads there.
    fn guards(&mut self) -> (Vec<Rule>, Vec<Rule>) {
        let Guarded { interfaces, nodes, ports } = std::mem::take(&mut self.guarded);
        let mut drops = vec![];
        for (protocol, ports) in ports {
            let set = self.set("guarded", Elements::Ports(ports.into_iter().collect()));
            drops.push(Rule(vec![Expression::PortIn(protocol, set), Expression::Drop]));
        }
        let mut forward = vec![];
        for interface in interfaces {
            forward.extend(self.of_addresses("nodes", nodes.clone(), |set| {
                vec![vec![
                    Expression::FromInterface(interface.clone()),
                    Expression::NotTranslated,
                    Expression::DestinationIn(set),
                    Expression::Jump(NODE_PORTS),
                ]]
            }));
        }
        (drops, forward)
    }
}

/// The name of an address's chain. A colon would not be a name to nft.
fn chain_of(kind: &str, address: IpAddr) -> String {
    format!("{kind}{address}").replace(':', "_")
}

/// A set whose name says what is in it, so that rules with equal texts mean the same. Nobody can choose contents, such as source
/// ranges, that have the name of another set.
fn named(kind: &str, elements: Elements) -> Set {
    let digest = digest(&SHA256, elements.to_string().as_bytes());
    let hex: String = digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    Set { name: format!("{kind}-{hex}"), elements }
}

impl Table {
    pub fn is_empty(&self) -> bool {
        self.chains.is_empty()
    }

    /// The chains and texts of its rules, as the kernel has them.
    pub fn texts(&self) -> Vec<(String, String)> {
        let rules = self.chains.iter().flat_map(|chain| chain.rules.iter().map(|rule| (&chain.name, rule)));
        rules.map(|(chain, rule)| (chain.clone(), rule.to_string())).collect()
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, expression) in self.0.iter().enumerate() {
            write!(f, "{}{expression}", if at > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

/// As nft writes them.
impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = |is_v6: bool| if is_v6 { "ip6" } else { "ip" };
        match self {
            Self::FromInterface(interface) => write!(f, "iifname {interface}"),
            Self::JumpByDestination(InSet { is_v6, set }) => {
                write!(f, "{} daddr vmap @{set}", family(*is_v6))
            }
            Self::DestinationIn(InSet { is_v6, set }) => write!(f, "{} daddr @{set}", family(*is_v6)),
            Self::SourceIn(InSet { is_v6, set }) => write!(f, "{} saddr @{set}", family(*is_v6)),
            Self::OriginalDestinationIn(InSet { is_v6, set }) => {
                write!(f, "ct status dnat ct original {} daddr @{set}", family(*is_v6))
            }
            Self::NotTranslated => f.write_str("ct status & dnat == 0"),
            Self::PortIn(protocol, set) => write!(f, "{protocol} dport @{set}"),
            Self::Protocol(protocol) => write!(f, "meta l4proto {protocol}"),
            Self::Jump(chain) => write!(f, "jump {chain}"),
            Self::Accept => write!(f, "accept"),
            Self::Drop => write!(f, "drop"),
            Self::Reject => write!(f, "reject"),
            Self::Masquerade => write!(f, "masquerade"),
            Self::Translate { protocol, ports, map, is_v6, count, choice } => {
                let by = match choice {
                    Choice::Random => "numgen random".to_owned(),
                    Choice::BySource => format!("jhash {} saddr", family(*is_v6)),
                };
                let family = family(*is_v6);
                write!(f, "dnat {family} to {by} mod {count} map @{map} : {protocol} dport map @{ports}")
            }
        }
    }
}

impl fmt::Display for Elements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Numbered { addresses, .. } | Self::Addresses { addresses, .. } => {
                addresses.iter().try_for_each(|address| write!(f, " {address}"))
            }
            Self::Chains { chains, .. } => {
                chains.iter().try_for_each(|(address, chain)| write!(f, " {address}:{chain}"))
            }
            Self::Ranges { ranges, .. } => ranges.iter().try_for_each(|range| write!(f, " {range}")),
            Self::Ports(ports) => ports.iter().try_for_each(|port| write!(f, " {port}")),
            Self::NodePorts(ports) => {
                ports.iter().try_for_each(|(port, node_port)| write!(f, " {port}:{node_port}"))
            }
        }
    }
}

/// For tests: the sets, and the rules by chain.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for set in &self.sets {
            writeln!(f, "@{}:{}", set.name, set.elements)?;
        }
        for (chain, rule) in self.texts() {
            writeln!(f, "{chain}: {rule}")?;
        }
        Ok(())
    }
}
