//! The addresses of a Node, from its cloud and its kubelet. Pure.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use flyball_api::Node;
use flyball_api::node::NodeAddress;
use flyball_client::Patch;
use flyball_runtime::{Effect, ErrorKinds, Write};
use serde_json::{Value, json};

use crate::Metadata;

/// The annotation with the addresses that the kubelet prefers: one, or one of each family, separated by a comma.
pub const PROVIDED_IP: &str = "alpha.kubernetes.io/provided-node-ip";
const HOSTNAME: &str = "Hostname";

/// Why the annotation [`PROVIDED_IP`] cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeIpProblem {
    #[error("failed to parse node IP {text:?}: could not parse {entry:?}")]
    NoAddress { text: String, entry: String },
    #[error("failed to parse node IP {0:?}: must contain either a single IP or a dual-stack pair of IPs")]
    NoPair(String),
    #[error("failed to parse node IP {0:?}: dual-stack node IP cannot include '0.0.0.0' or '::'")]
    Unspecified(String),
    /// The machine does not have this address.
    #[error("failed to get node address from cloud provider that matches ip: {0}")]
    NotOfMachine(IpAddr),
}

/// Writes the addresses that a Node should have; `None` if it has them. The list is replaced as a whole, so it must still be
/// the version that was read: the kubelet may be adding its host name.
pub fn plan(node: &Node, metadata: Option<&Metadata>) -> Option<Effect> {
    let provided = metadata.map(|metadata| metadata.addresses.clone()).unwrap_or_default();
    if let Err(problem) = wanted(node, &provided) {
        return Some(Effect::Invalid(format!("addresses of node {}: {problem}", node.metadata.name)));
    }
    let uid = node.metadata.uid.clone();
    let change = move |node: &Node| {
        let addresses = wanted(node, &provided).ok()?.filter(|_| node.metadata.uid == uid)?;
        Some(Patch::Strategic(patch(node, &addresses)))
    };
    let write = Write::patch_retry_on_conflict(node, change)?.subresource("status");
    Some(write.why("its machine has other addresses").ignore(ErrorKinds::NOT_FOUND).into())
}

/// The addresses that a Node should have; `None` if it has them, or if the cloud provides none.
pub fn wanted(node: &Node, provided: &[NodeAddress]) -> Result<Option<Vec<NodeAddress>>, NodeIpProblem> {
    if provided.is_empty() {
        return Ok(None);
    }
    let mut addresses = provided.to_vec();
    // The kubelet has a host name even where the cloud has none.
    if !provided.iter().any(is_hostname) {
        addresses.extend(node.status.addresses.iter().filter(|address| is_hostname(address)).cloned());
    }
    let addresses = preferred(node, addresses)?;
    Ok((!are_alike(&node.status.addresses, &addresses)).then_some(addresses))
}

/// The patch of the status that replaces the addresses of the Node in the version that was read.
pub fn patch(node: &Node, addresses: &[NodeAddress]) -> Value {
    // By the schema addresses are merged by type, but a machine may have two of a type.
    let entries = addresses.iter().map(|address| json!(address)).chain([json!({"$patch": "replace"})]);
    json!({
        "metadata": {"resourceVersion": node.metadata.resource_version.to_string()},
        "status": {"addresses": entries.collect::<Vec<Value>>()},
    })
}

/// The addresses with those that the kubelet prefers first, and without others of the same type.
pub fn preferred(node: &Node, addresses: Vec<NodeAddress>) -> Result<Vec<NodeAddress>, NodeIpProblem> {
    let Some(text) = node.metadata.annotations.get(PROVIDED_IP) else { return Ok(addresses) };
    let mut first = vec![];
    for ip in preferences(text)? {
        let before = first.len();
        first.extend(addresses.iter().filter(|address| ip_of(&address.address) == Some(ip)).cloned());
        if first.len() == before {
            return Err(NodeIpProblem::NotOfMachine(ip));
        }
    }
    let types: Vec<_> = first.iter().map(|address| address.type_.clone()).collect();
    first.extend(addresses.into_iter().filter(|address| !types.contains(&address.type_)));
    Ok(first)
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

/// Numbers of IPv4 addresses may have leading zeros, as for upstream (ParseIPSloppy).
fn ip_of(text: &str) -> Option<IpAddr> {
    let plain = || {
        let parts = text.split('.').map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0",
            digits => digits,
        });
        parts.collect::<Vec<_>>().join(".").parse::<Ipv4Addr>().ok().map(IpAddr::V4)
    };
    text.parse::<IpAddr>().ok().or_else(plain).map(|ip| ip.to_canonical())
}

fn is_hostname(address: &NodeAddress) -> bool {
    address.type_ == HOSTNAME
}

/// Whether both lists have the same addresses of each type in the same order. The order of types does not matter.
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
