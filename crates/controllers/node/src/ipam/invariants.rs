//! What must hold of the books at any time; for tables, properties and the simulator.

use flyball_api::Node;
use ipnet::IpNet;

use super::settings::{Settings, parse};

/// Checks what a node was given against all nodes that there are and against the flags.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(settings: &Settings, nodes: &[Node], node: &Node, given: &[IpNet]) -> Result<(), String> {
    let overlap = |a: &IpNet, b: &IpNet| a.contains(b) || b.contains(a);
    let free_of =
        |others: &[IpNet]| !given.iter().any(|range| others.iter().any(|other| overlap(range, other)));
    let others: Vec<IpNet> = nodes
        .iter()
        .filter(|other| other.metadata.uid != node.metadata.uid)
        .flat_map(|other| other.spec.pod_cidrs.iter().filter_map(|text| parse(text)))
        .collect();
    let in_order =
        given.iter().zip(&settings.clusters).all(|(range, blocks)| blocks.cluster().contains(range));
    let rules = [
        ("one range of each cluster range", given.len() == settings.clusters.len()),
        ("in the order of the flag", in_order),
        ("no address is given to two nodes", free_of(&others)),
        ("no address of a Service is given away", free_of(&settings.services)),
    ];
    rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(rule, _)| Err(format!("{rule}: {given:?}")))
}
