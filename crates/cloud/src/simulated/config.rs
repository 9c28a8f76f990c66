//! The configuration file of a simulated cloud.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use flyball_api::node::NodeAddress;
use flyball_runtime::config::duration;
use ipnet::IpNet;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use smol_str::{SmolStr, format_smolstr};

use super::Call;
use crate::kit::{Checked, Written};
use crate::provider::{CloudError, Route};

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Its machines; `None` for a cloud without machines.
    #[serde(default, deserialize_with = "machines")]
    pub machines: Option<Vec<Machine>>,
    /// Its load balancers; `None` for a cloud without load balancers.
    #[serde(default)]
    pub load_balancers: Option<Pool>,
    /// The initial routes; `None` for a cloud without routes.
    #[serde(default)]
    pub routes: Option<Vec<SimulatedRoute>>,
    /// Whether resources do not show which cluster they belong to.
    #[serde(default)]
    pub untagged: bool,
    /// The calls that fail, and their errors.
    #[serde(default)]
    pub failures: BTreeMap<Call, Failure>,
}

impl Default for Config {
    /// Load balancers only. An empty list of machines would delete all Nodes.
    fn default() -> Self {
        Self {
            machines: None,
            load_balancers: Some(Pool::default()),
            routes: None,
            untagged: false,
            failures: BTreeMap::new(),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Machine {
    /// The name of its Node.
    pub name: SmolStr,
    /// Its id in the cloud; the name if empty.
    pub id: SmolStr,
    /// If set, its Node is the one whose kubelet reports this `status.nodeInfo.systemUUID`, whatever its name.
    #[serde(rename = "systemUUID")]
    pub system_uuid: SmolStr,
    #[serde(rename = "type")]
    pub type_: SmolStr,
    pub zone: SmolStr,
    pub region: SmolStr,
    pub state: MachineState,
    pub addresses: Vec<NodeAddress>,
    /// Further labels of its Node.
    pub labels: BTreeMap<SmolStr, SmolStr>,
}

impl Machine {
    /// Its id in the cloud.
    pub fn id(&self) -> &SmolStr {
        if self.id.is_empty() { &self.name } else { &self.id }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MachineState {
    #[default]
    Running,
    /// It exists, but does not run.
    Stopped,
}

/// Where load balancers get their addresses.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pool {
    /// The ranges they are taken from.
    #[serde(deserialize_with = "ranges")]
    pub addresses: Vec<IpNet>,
    /// How long it takes to create one.
    #[serde(default, deserialize_with = "go_duration")]
    pub ready_after: Duration,
    /// Whether the status lists the ports.
    #[serde(default)]
    pub ports: bool,
    /// The `ipMode` of addresses; not part of the status if absent.
    #[serde(default)]
    pub ip_mode: Option<SmolStr>,
}

impl Default for Pool {
    /// A range that is reserved for documentation.
    fn default() -> Self {
        let range = IpNet::new_assert([192, 0, 2, 0].into(), 24);
        Self { addresses: vec![range], ready_after: Duration::ZERO, ports: false, ip_mode: None }
    }
}

/// The error of a call.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum Failure {
    /// A failure with this text.
    Text(String),
    /// One of the errors that controllers treat specially.
    Special { kind: SpecialError },
    /// Not yet: retry after this time.
    Later {
        message: String,
        #[serde(deserialize_with = "go_duration")]
        retry_after: Duration,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SpecialError {
    InstanceNotFound,
    NotImplemented,
    ImplementedElsewhere,
}

impl Failure {
    pub(super) fn error(&self) -> CloudError {
        match self {
            Self::Text(text) => CloudError::failed(text.as_str()),
            Self::Special { kind: SpecialError::InstanceNotFound } => CloudError::InstanceNotFound,
            Self::Special { kind: SpecialError::NotImplemented } => CloudError::NotImplemented,
            Self::Special { kind: SpecialError::ImplementedElsewhere } => CloudError::ImplementedElsewhere,
            Self::Later { message, retry_after } => {
                CloudError::RetryAfter { message: message.clone(), after: *retry_after }
            }
        }
    }
}

/// A route that exists at the start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct SimulatedRoute {
    /// Its name; chosen if empty.
    pub name: SmolStr,
    /// The node it leads to.
    pub node: SmolStr,
    /// The range it is for.
    #[serde(deserialize_with = "range")]
    pub destination: SmolStr,
    pub blackhole: bool,
}

impl SimulatedRoute {
    /// The route as controllers see it.
    pub(super) fn named(&self, number: usize) -> Route {
        let SimulatedRoute { name, node, destination, blackhole } = self.clone();
        let name = if name.is_empty() { format_smolstr!("initial-{number}") } else { name };
        Route { name, node, node_addresses: None, destination, is_blackhole: blackhole }
    }
}

impl Checked for Config {
    fn problem(&self) -> Option<String> {
        if self.load_balancers.as_ref().is_some_and(|pool| pool.addresses.is_empty()) {
            return Some("loadBalancers.addresses needs a range, such as 192.0.2.0/24".to_owned());
        }
        let mut routes = self.routes.iter().flatten().enumerate();
        let (n, _) = routes.find(|(_, route)| route.destination.is_empty())?;
        Some(format!("routes[{n}] needs a destination, a range such as 10.244.1.0/24"))
    }
}

fn ranges<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IpNet>, D::Error> {
    let ranges: Vec<Written<IpNet>> = Vec::deserialize(from)?;
    Ok(ranges.into_iter().map(|range| range.0).collect())
}

fn range<'de, D: Deserializer<'de>>(from: D) -> Result<SmolStr, D::Error> {
    Ok(format_smolstr!("{}", Written::<IpNet>::deserialize(from)?.0))
}

/// Machines whose names and ids differ. Each is checked where it is read, so that errors have its line.
fn machines<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Machine>>, D::Error> {
    struct List;
    impl<'de> Visitor<'de> for List {
        type Value = Option<Vec<Machine>>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of machines such as {name: node-1}")
        }
        fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let (mut machines, mut taken) = (vec![], Taken::default());
            while let Some(machine) = list.next_element_seed(&mut taken)? {
                machines.push(machine);
            }
            Ok(Some(machines))
        }
    }
    from.deserialize_any(List)
}

/// The names and ids of earlier machines.
#[derive(Default)]
struct Taken {
    names: BTreeSet<SmolStr>,
    ids: BTreeSet<SmolStr>,
}

impl Taken {
    fn problem(&mut self, machine: &Machine) -> Option<String> {
        if machine.name.is_empty() {
            return Some("a machine needs a name, that of its Node".to_owned());
        }
        if !self.names.insert(machine.name.clone()) || !self.ids.insert(machine.id().clone()) {
            return Some(format!("there are two machines {:?}; names and ids must differ", machine.name));
        }
        let unclear = machine.addresses.iter().find(|a| a.type_.is_empty() || a.address.is_empty())?;
        Some(format!(
            "an address needs type and address, such as {{type: InternalIP, address: 10.0.0.1}}, not {:?} and {:?}",
            unclear.type_, unclear.address
        ))
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
        f.write_str("a machine such as {name: node-1}")
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Machine, A::Error> {
        let machine = Machine::deserialize(MapAccessDeserializer::new(map))?;
        self.problem(&machine).map_or(Ok(machine), |problem| Err(serde::de::Error::custom(problem)))
    }
}

fn go_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    duration::parse(&text).map_err(serde::de::Error::custom)
}
