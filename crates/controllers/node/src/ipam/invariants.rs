//! What must hold for every allocation; for properties and the simulator.

use flyball_api::Node;
use ipnet::IpNet;

use super::settings::{Settings, parse};

/// Checks the blocks reserved for a node against all nodes and against the flags.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(settings: &Settings, nodes: &[Node], node: &Node, reserved: &[IpNet]) -> Result<(), String> {
    let overlap = |a: &IpNet, b: &IpNet| a.contains(b) || b.contains(a);
    let free_of =
        |others: &[IpNet]| !reserved.iter().any(|range| others.iter().any(|other| overlap(range, other)));
    let others: Vec<IpNet> = nodes
        .iter()
        .filter(|other| other.metadata.uid != node.metadata.uid)
        .flat_map(|other| other.spec.pod_cidrs.iter().filter_map(|text| parse(text)))
        .collect();
    let in_order =
        reserved.iter().zip(&settings.clusters).all(|(range, blocks)| blocks.cluster().contains(range));
    let rules = [
        ("one block of each cluster CIDR", reserved.len() == settings.clusters.len()),
        ("in the order of the flag", in_order),
        ("no address is given to two nodes", free_of(&others)),
        ("no Service address is given to a node", free_of(&settings.services)),
    ];
    rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(rule, _)| Err(format!("{rule}: {reserved:?}")))
}
