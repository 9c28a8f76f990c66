//! Which addresses a Node should have, by what its cloud and its kubelet say. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use flyball_api::Node;
use flyball_api::node::NodeAddress;
use serde_json::{Value, json};

/// The addresses that the kubelet was told to prefer: one, or one of each family, separated by a comma.
pub const PROVIDED_IP: &str = "alpha.kubernetes.io/provided-node-ip";
const HOSTNAME: &str = "Hostname";

/// Why the annotation [`PROVIDED_IP`] cannot be honoured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeIpProblem {
    /// An entry is no address.
    #[error("failed to parse node IP {text:?}: could not parse {entry:?}")]
    NoAddress { text: String, entry: String },
    /// There are too many, or two that do not go together.
    #[error("failed to parse node IP {0:?}: must contain either a single IP or a dual-stack pair of IPs")]
    NoPair(String),
    /// One of two stands for any address.
    #[error("failed to parse node IP {0:?}: dual-stack node IP cannot include '0.0.0.0' or '::'")]
    Unspecified(String),
    /// The cloud does not know it.
    #[error("failed to get node address from cloud provider that matches ip: {0}")]
    NotOfMachine(IpAddr),
}

/// The addresses that a Node should have, if it has others. `provided` is what the cloud says; nothing means that it
/// does not know.
pub fn wanted(node: &Node, provided: &[NodeAddress]) -> Result<Option<Vec<NodeAddress>>, NodeIpProblem> {
    if provided.is_empty() {
        return Ok(None);
    }
    let mut addresses = provided.to_vec();
    // The kubelet knows its name even where the cloud does not.
    if !provided.iter().any(is_hostname) {
        addresses.extend(node.status.addresses.iter().filter(|address| is_hostname(address)).cloned());
    }
    let addresses = honoured(node, addresses)?;
    Ok((!are_alike(&node.status.addresses, &addresses)).then_some(addresses))
}

/// The patch of the status that replaces a Node's addresses by others, if it still is as it was seen.
pub fn patch(node: &Node, addresses: &[NodeAddress]) -> Value {
    // By the schema addresses are merged by type, which is wrong: a machine may have two of a type.
    let entries = addresses.iter().map(|address| json!(address)).chain([json!({"$patch": "replace"})]);
    json!({
        "metadata": {"resourceVersion": node.metadata.resource_version.to_string()},
        "status": {"addresses": entries.collect::<Vec<Value>>()},
    })
}

/// The addresses with those that the kubelet prefers in front, and without others of the same type.
pub fn honoured(node: &Node, addresses: Vec<NodeAddress>) -> Result<Vec<NodeAddress>, NodeIpProblem> {
    let Some(text) = node.metadata.annotations.get(PROVIDED_IP) else { return Ok(addresses) };
    let mut preferred = vec![];
    for ip in preferences(text)? {
        let before = preferred.len();
        preferred.extend(addresses.iter().filter(|address| ip_of(&address.address) == Some(ip)).cloned());
        if preferred.len() == before {
            return Err(NodeIpProblem::NotOfMachine(ip));
        }
    }
    let types: Vec<_> = preferred.iter().map(|address| address.type_.clone()).collect();
    preferred.extend(addresses.into_iter().filter(|address| !types.contains(&address.type_)));
    Ok(preferred)
}

fn preferences(text: &str) -> Result<Vec<IpAddr>, NodeIpProblem> {
    let parse = |entry: &str| {
        ip_of(entry)
            .ok_or_else(|| NodeIpProblem::NoAddress { text: text.to_owned(), entry: entry.to_owned() })
    };
    let ips: Vec<IpAddr> = text.split(',').map(parse).collect::<Result<_, _>>()?;
    match ips[..] {
        [_] => Ok(ips),
        [a, b] if a.is_ipv4() == b.is_ipv4() => Err(NodeIpProblem::NoPair(text.to_owned())),
        [a, b] if a.is_unspecified() || b.is_unspecified() => {
            Err(NodeIpProblem::Unspecified(text.to_owned()))
        }
        [_, _] => Ok(ips),
        _ => Err(NodeIpProblem::NoPair(text.to_owned())),
    }
}

fn ip_of(text: &str) -> Option<IpAddr> {
    text.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

fn is_hostname(address: &NodeAddress) -> bool {
    address.type_ == HOSTNAME
}

/// Whether both lists have the same addresses of each type in the same order. How types are mixed does not matter.
fn are_alike(a: &[NodeAddress], b: &[NodeAddress]) -> bool {
    fn by_type(list: &[NodeAddress]) -> BTreeMap<&str, Vec<&str>> {
        let mut types: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for address in list {
            types.entry(&address.type_).or_default().push(&address.address);
        }
        types
    }
    by_type(a) == by_type(b)
}
