//! The file of `--cloud-config`: the machines, the address pools, and what marks our state in the kernel.
//!
//! Every value is checked while it is read, by visitors, since their errors have the line of the value.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use flyball_cloud::kit::{ApiAddress, Checked, Form, Written};
use ipnet::IpNet;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use smol_str::SmolStr;

/// Marks addresses and routes in the kernel; not in use by others as far as `/etc/iproute2/rt_protos` knows.
const PROTOCOL: u8 = 170;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// `None`: machines are not ours to know.
    #[serde(default)]
    pub machines: Option<Machines>,
    /// `None`: no load balancers.
    #[serde(default)]
    pub load_balancers: Option<LoadBalancers>,
    /// `None`: no routes.
    #[serde(default)]
    pub routes: Option<Routes>,
    #[serde(default)]
    pub protocol: Protocol,
}

/// The machines, whose names, ids and addresses differ.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machines(pub Vec<Machine>);

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Machine {
    /// The name of its Node.
    pub name: SmolStr,
    /// Its name in provider IDs; the name of its Node if empty.
    pub id: SmolStr,
    /// If set, its Node is the one whose kubelet reports this `status.nodeInfo.systemUUID`, whatever its name.
    #[serde(rename = "systemUUID")]
    pub system_uuid: SmolStr,
    #[serde(rename = "type")]
    pub type_: SmolStr,
    pub zone: SmolStr,
    pub region: SmolStr,
    pub state: State,
    /// Where the gateways and the other nodes reach it.
    pub addresses: Vec<Written<IpAddr>>,
    pub external_addresses: Vec<Written<IpAddr>>,
    pub labels: BTreeMap<SmolStr, SmolStr>,
    /// Its management controller, which knows whether it is switched on.
    pub redfish: Option<Redfish>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Redfish {
    pub address: Written<ApiAddress>,
    /// The machine among the systems of its controller; may be empty if there is only one.
    #[serde(default)]
    pub system: SmolStr,
    pub user: String,
    pub password_file: PathBuf,
    /// Certificate authorities for the controller's certificate; those of this machine if absent.
    #[serde(default)]
    pub authorities_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    #[default]
    Running,
    /// It exists, but is switched off.
    Stopped,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadBalancers {
    pub pools: Vec<Pool>,
    /// Whether Services of `externalTrafficPolicy: Local` see the addresses of clients. Nodes then have to send their replies
    /// through the gateway.
    #[serde(default)]
    pub preserve_client_addresses: bool,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pool {
    /// The interface that gets the addresses.
    pub interface: Interface,
    pub addresses: Vec<Written<IpNet>>,
}

/// There is nothing to say about routes but that there are some.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Routes {}

impl Machine {
    pub fn id(&self) -> &SmolStr {
        if self.id.is_empty() { &self.name } else { &self.id }
    }
}

impl LoadBalancers {
    pub fn ranges(&self) -> Vec<IpNet> {
        self.pools.iter().flat_map(|pool| pool.addresses.iter().map(|range| range.0)).collect()
    }

    /// The interface of an address.
    pub fn interface(&self, address: IpAddr) -> Option<&SmolStr> {
        let has = |pool: &&Pool| pool.addresses.iter().any(|range| range.0.contains(&address));
        self.pools.iter().find(has).map(|pool| &pool.interface.0)
    }
}

impl Checked for Config {
    fn problem(&self) -> Option<String> {
        if self.machines.is_none() && self.load_balancers.is_none() && self.routes.is_none() {
            return Some("it needs machines, loadBalancers or routes".to_owned());
        }
        if self.routes.is_some() && self.machines.is_none() {
            return Some("routes needs machines, whose addresses routes lead to".to_owned());
        }
        let ranges = self.load_balancers.as_ref()?.ranges();
        if ranges.is_empty() {
            return Some("loadBalancers.pools needs a pool with addresses, such as {interface: eth0, addresses: [192.0.2.200/29]}".to_owned());
        }
        let overlap = |range: &IpNet| {
            let nested = |other: &&IpNet| other.contains(range) || range.contains(*other);
            ranges.iter().filter(nested).count() > 1
        };
        if let Some(twice) = ranges.iter().find(|range| overlap(range)) {
            return Some(format!("loadBalancers.pools: {twice} is in two ranges; an address must be in one"));
        }
        let of = |machine: &Machine| {
            let addresses: Vec<_> = machine.addresses.iter().chain(&machine.external_addresses).collect();
            let name = machine.name.clone();
            addresses
                .into_iter()
                .map(|address| address.0)
                .map(move |address| (name.clone(), address))
                .collect::<Vec<_>>()
        };
        let machines = self.machines.iter().flat_map(|machines| &machines.0);
        let (name, address, range) = machines.flat_map(of).find_map(|(name, address)| {
            Some((name, address, ranges.iter().find(|range| range.contains(&address))?))
        })?;
        Some(format!(
            "loadBalancers.pools: {range} has {address}, an address of machine {name:?}; a pool must have addresses that no machine has"
        ))
    }
}

/// The name of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface(pub SmolStr);

impl FromStr for Interface {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let is_name = (1..16).contains(&text.len()) && !text.contains(['/', ' ']);
        is_name.then(|| Self(text.into())).ok_or(())
    }
}

impl Form for Interface {
    const EXAMPLE: &'static str = "the name of an interface such as eth0";
}

impl<'de> Deserialize<'de> for Interface {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Written::deserialize(from).map(|written| written.0)
    }
}

/// A number from 5 to 255: the smaller ones are the kernel's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocol(pub u8);

impl Default for Protocol {
    fn default() -> Self {
        Self(PROTOCOL)
    }
}

impl<'de> Deserialize<'de> for Protocol {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Protocol;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number from 5 to 255")
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Protocol, E> {
                let own = u8::try_from(number).ok().filter(|number| *number > 4);
                own.map(Protocol).ok_or_else(|| {
                    E::custom(format!("{number} is not a number from 5 to 255, such as {PROTOCOL}"))
                })
            }
        }
        from.deserialize_u64(Number)
    }
}

impl<'de> Deserialize<'de> for Machines {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Machines;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of machines")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Machines, A::Error> {
                let (mut machines, mut taken) = (vec![], Taken::default());
                while let Some(machine) = list.next_element_seed(&mut taken)? {
                    machines.push(machine);
                }
                Ok(Machines(machines))
            }
        }
        from.deserialize_seq(List)
    }
}

/// What earlier machines of the list have.
#[derive(Default)]
struct Taken {
    names: BTreeSet<SmolStr>,
    ids: BTreeSet<SmolStr>,
    addresses: BTreeSet<IpAddr>,
}

impl Taken {
    fn problem(&mut self, machine: &Machine) -> Option<String> {
        let Machine { name, addresses, .. } = machine;
        if name.is_empty() {
            return Some("a machine needs a name, that of its Node".to_owned());
        }
        if !self.names.insert(name.clone()) {
            return Some(format!("there are two machines {name:?}; names must differ"));
        }
        if !self.ids.insert(machine.id().clone()) {
            return Some(format!("{:?} is the id of two machines; ids must differ", machine.id()));
        }
        let twice = addresses.iter().find(|address| !self.addresses.insert(address.0))?;
        Some(format!("{} is the address of two machines; addresses must differ", twice.0))
    }
}

impl<'de> DeserializeSeed<'de> for &mut Taken {
    type Value = Machine;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Machine, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Taken {
    type Value = Machine;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a machine such as {name: node-1, addresses: [10.0.0.1]}")
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Machine, A::Error> {
        let machine = Machine::deserialize(MapAccessDeserializer::new(map))?;
        self.problem(&machine).map_or(Ok(machine), |problem| Err(A::Error::custom(problem)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use flyball_cloud::kit::ConfigFile;

    use super::*;

    #[test]
    fn mistakes_are_named_with_their_line_and_what_would_be_right() {
        #[rustfmt::skip]
        let table = [
            ("machines:\n- name: a\n- {zone: z}\n",                             ":3: ", "a machine needs a name"),
            ("machines:\n- name: a\n- name: b\n- name: a\n",                    ":4: ", "there are two machines \"a\""),
            ("machines:\n- name: a\n- name: b\n  id: a\n",                      ":3: ", "\"a\" is the id of two machines"),
            ("machines:\n- name: a\n  addresses: [10.0.0.1]\n- name: b\n  addresses: [10.0.0.1]\n", ":4: ", "10.0.0.1 is the address of two machines"),
            ("machines:\n- name: a\n  addresses:\n  - 10.0.0.300\n",            ":4: ", "\"10.0.0.300\" is not an address such as 10.0.0.1 or fd00::1"),
            ("machines:\n- name: a\n  state: asleep\n",                         ":3: ", "unknown variant `asleep`, expected `running` or `stopped`"),
            ("machines:\n- name: a\n  redish: x\n",                            ":3: ", "unknown field `redish`"),
            ("machines:\n- name: a\n  redfish:\n    address: 10.0.1.11\n",     ":4: ", "\"10.0.1.11\" is not the address of an API such as https://10.0.1.11"),
            ("machines:\n- name: a\n  redfish: {address: 'https://b'}\n",       ":3: ", "missing field `user`"),
            ("machines:\n- a\n",                                                ":2: ", "expected a machine such as {name: node-1"),
            ("machines: 5\n",                                                   ":1: ", "expected a list of machines"),
            ("loadBalancers:\n  pools:\n  - interface: eth0\n    addresses: [192.0.2.0/33]\n", ":4: ", "\"192.0.2.0/33\" is not a range such as"),
            ("loadBalancers:\n  pools:\n  - addresses: [192.0.2.0/24]\n",       ":3: ", "missing field `interface`"),
            ("loadBalancers:\n  pools:\n  - interface: a/b\n    addresses: []\n", ":3: ", "\"a/b\" is not the name of an interface"),
            ("loadBalancers: {pools: []}\n",                                    ": ",   "loadBalancers.pools needs a pool"),
            ("loadBalancers:\n  pools:\n  - {interface: a, addresses: [10.0.0.0/8]}\n  - {interface: b, addresses: [10.1.0.0/16]}\n", ": ", "10.0.0.0/8 is in two ranges"),
            ("machines: [{name: a, addresses: [10.0.0.9]}]\nloadBalancers: {pools: [{interface: lan, addresses: [10.0.0.8/29]}]}\n", ": ", "10.0.0.8/29 has 10.0.0.9, an address of machine \"a\""),
            ("routes: {}\nprotocol: 2\n",                                       ":2: ", "2 is not a number from 5 to 255"),
            ("routes: {}\n",                                                   ": ",   "routes needs machines"),
            ("{}",                                                              ": ",   "it needs machines, loadBalancers or routes"),
        ];
        for (text, line, want) in table {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), text).unwrap();
            let error = ConfigFile::<Config>::open(file.path()).map(|_| ()).expect_err(text).to_string();
            let start = format!("{}{line}", file.path().display());
            assert!(error.starts_with(&start) && error.contains(want), "{text}: {error}");
        }
    }
}
