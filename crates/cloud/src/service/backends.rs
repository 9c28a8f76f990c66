//! Which nodes a load balancer points to. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::Node;
use smol_str::SmolStr;

/// Keeps a node out, unless its value says no.
pub const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// The taint of a node that the cluster autoscaler is about to remove.
pub const LEAVING: &str = "ToBeDeletedByClusterAutoscaler";
/// Names that an event lists at most.
const LISTED: usize = 20;

/// The nodes that a load balancer points to, by name, with the machine behind each: when one of these changes, the
/// load balancer has to follow.
pub type Backends = BTreeMap<SmolStr, SmolStr>;

/// The nodes that load balancers may point to, by name. Whether they are Ready does not matter: the load balancer
/// looks for itself.
pub fn eligible(nodes: impl IntoIterator<Item = Arc<Node>>) -> Vec<Arc<Node>> {
    let mut eligible: Vec<_> = nodes.into_iter().filter(|node| is_eligible(node)).collect();
    eligible.sort_unstable_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    eligible
}

/// The nodes as far as a load balancer cares.
pub fn backends(nodes: &[Arc<Node>]) -> Backends {
    nodes.iter().map(|node| (node.metadata.name.clone(), node.spec.provider_id.clone())).collect()
}

fn is_eligible(node: &Node) -> bool {
    let is_leaving = node.spec.taints.iter().any(|taint| taint.key == LEAVING);
    !node.metadata.is_deleting() && !is_excluded(node) && !is_leaving
}

/// Whether somebody wants no load balancer to point to a node. A value that is neither yes nor no is a yes.
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
