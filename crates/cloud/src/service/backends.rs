//! Which nodes a load balancer points to. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::Node;
use smol_str::SmolStr;

/// The label that excludes a node, unless its value is false.
pub const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// The taint of a node that the cluster autoscaler is about to delete.
pub const LEAVING: &str = "ToBeDeletedByClusterAutoscaler";
/// How many names an event lists.
const LISTED: usize = 20;

/// The names of the nodes that a load balancer points to, with their provider IDs. A load balancer is updated when these
/// change.
pub type Backends = BTreeMap<SmolStr, SmolStr>;

/// The nodes that load balancers may point to, by name. They need not be Ready: load balancers have health checks of their
/// own.
pub fn eligible(nodes: impl IntoIterator<Item = Arc<Node>>) -> Vec<Arc<Node>> {
    let mut eligible: Vec<_> = nodes.into_iter().filter(|node| is_eligible(node)).collect();
    eligible.sort_unstable_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    eligible
}

pub fn backends(nodes: &[Arc<Node>]) -> Backends {
    nodes.iter().map(|node| (node.metadata.name.clone(), node.spec.provider_id.clone())).collect()
}

fn is_eligible(node: &Node) -> bool {
    let is_leaving = node.spec.taints.iter().any(|taint| taint.key == LEAVING);
    !node.metadata.is_deleting() && !is_excluded(node) && !is_leaving
}

/// Whether a node is excluded by its label. A value that is not a boolean counts as true.
pub fn is_excluded(node: &Node) -> bool {
    let no = ["0", "f", "F", "false", "False", "FALSE"];
    node.metadata.labels.get(EXCLUDE).is_some_and(|value| !no.contains(&value))
}

/// The names of nodes as events list them.
pub fn listed(nodes: &[Arc<Node>]) -> String {
    let mut names: Vec<String> =
        nodes.iter().take(LISTED).map(|node| node.metadata.name.to_string()).collect();
    names.sort_unstable();
    if nodes.len() > LISTED {
        names.push(format!("<{} more>", nodes.len() - LISTED));
    }
    format!("[{}]", names.join(" "))
}
