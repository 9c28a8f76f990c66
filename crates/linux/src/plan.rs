//! Compares the desired with the actual state of the kernel, and returns the operations. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use smol_str::SmolStr;

use crate::balancer::{Balancer, Held, Protocol};
use crate::ruleset::{self, Table, table, translated};

/// How long the kernel keeps an address that is not renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// Until it is removed: there is no other process that could take over.
    Forever,
    /// Until another process may lead: the address of a leader that was killed or hangs expires before its successor adds it.
    For(Duration),
}

/// What should be there.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    pub balancers: Vec<&'a Balancer>,
    pub lifetime: Lifetime,
}

/// What the kernel has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    pub addresses: Vec<SeenAddress>,
    /// The chains and comments of the rules in our table.
    pub rules: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenAddress {
    pub held: Held,
    /// Whether it carries our protocol number.
    pub is_ours: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Before an address is announced, the rules for it are there.
    Replace(Table),
    DeleteTable,
    /// Adds an address, or renews its lifetime.
    Hold(Held, Lifetime),
    Announce(Held),
    Release(Held),
}

/// A connection whose destination the kernel changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// What the client sent to.
    pub address: IpAddr,
    pub protocol: Protocol,
    pub port: u16,
    /// Who answers it.
    pub backend: IpAddr,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub operations: Vec<Operation>,
    /// The addresses that are ours afterwards.
    pub held: BTreeSet<Held>,
    /// Those whose connections were translated by our rules, until now or from now on.
    pub translated: BTreeSet<IpAddr>,
    /// Addresses that this machine has already, for something else.
    pub conflicts: BTreeMap<IpAddr, SmolStr>,
}

pub fn plan(wanted: &Wanted<'_>, seen: &Seen) -> Plan {
    let held = |is_ours: bool| {
        let addresses = seen.addresses.iter().filter(move |seen| seen.is_ours == is_ours);
        addresses.map(|seen| &seen.held)
    };
    let foreign: BTreeMap<IpAddr, &Held> = held(false).map(|held| (held.address, held)).collect();
    let wants: BTreeSet<&Held> = wanted.balancers.iter().flat_map(|balancer| &balancer.addresses).collect();
    let conflicts = wants.iter().filter_map(|want| foreign.get(&want.address));
    let conflicts: BTreeMap<IpAddr, SmolStr> =
        conflicts.map(|held| (held.address, held.interface.clone())).collect();
    let ours: BTreeSet<&Held> = held(true).collect();

    // A rule for an address with another owner would redirect that owner's packets.
    let clean: Vec<&Balancer> =
        wanted.balancers.iter().copied().filter(|b| !conflicts_with(b, &conflicts)).collect();
    let wants: BTreeSet<&Held> = clean.iter().flat_map(|balancer| &balancer.addresses).collect();
    let mut operations: Vec<Operation> =
        ours.difference(&wants).map(|held| Operation::Release((*held).clone())).collect();
    // First, and whatever comes of the rest: the rules for these are there.
    let old = wants.iter().filter(|held| ours.contains(*held));
    let renewed = old.filter(|_| wanted.lifetime != Lifetime::Forever);
    operations.extend(renewed.map(|held| Operation::Hold((*held).clone(), wanted.lifetime)));
    let table = table(&clean);
    let rules = table.texts();
    let mut translated = translated(&rules);
    if rules != seen.rules {
        translated.extend(ruleset::translated(&seen.rules));
        operations.push(if table.is_empty() { Operation::DeleteTable } else { Operation::Replace(table) });
    }
    for held in wants.difference(&ours) {
        operations.push(Operation::Hold((*held).clone(), wanted.lifetime));
        operations.push(Operation::Announce((*held).clone()));
    }
    Plan { operations, held: wants.into_iter().cloned().collect(), translated, conflicts }
}

fn conflicts_with(balancer: &Balancer, conflicts: &BTreeMap<IpAddr, SmolStr>) -> bool {
    balancer.addresses.iter().any(|held| conflicts.contains_key(&held.address))
}

/// Whether a connection that our rules for one of the `translated` addresses made leads to where no new one would: its Service is
/// gone, or its node.
pub fn is_stale(flow: &Flow, balancers: &[&Balancer], translated: &BTreeSet<IpAddr>) -> bool {
    let serves = |balancer: &&&Balancer| {
        balancer.addresses.iter().any(|held| held.address == flow.address)
            && balancer.ports.iter().any(|port| port.protocol == flow.protocol && port.port == flow.port)
            && balancer.backends.iter().any(|backend| backend.addresses.contains(&flow.backend))
    };
    translated.contains(&flow.address) && !balancers.iter().any(|balancer| serves(&balancer))
}

/// For tables in tests, and for the log.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replace(table) => write!(f, "replace the table with {} rules", table.texts().len()),
            Self::DeleteTable => write!(f, "delete the table"),
            Self::Hold(held, Lifetime::Forever) => write!(f, "hold {held}"),
            Self::Hold(held, Lifetime::For(time)) => write!(f, "hold {held} for {time:?}"),
            Self::Announce(held) => write!(f, "announce {held}"),
            Self::Release(held) => write!(f, "release {held}"),
        }
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.address, self.interface)
    }
}
