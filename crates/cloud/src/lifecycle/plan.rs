//! What becomes of a Node, by what it reports and what its cloud says. Pure.

use flyball_api::Node;
use flyball_api::taint::Taint;
use serde_json::{Value, json};

/// The taint of a Node whose machine is stopped.
pub const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
const NO_SCHEDULE: &str = "NoSchedule";

/// What is to be done without asking anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    Well,
    /// It is Ready again: the taint goes.
    Recovered,
    /// It is not Ready: the cloud has to say why.
    Silent,
}

/// What a cloud knows about the machine of a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    Gone,
    ShutDown,
    /// It is there, and is not said to be stopped.
    There,
}

/// What is to be done for a Node that is not Ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Leave,
    /// Pods are to be kept away.
    Taint,
    Delete,
}

/// A first look at a Node.
pub fn look(node: &Node) -> Look {
    match (node.is_ready(), is_tainted(node)) {
        (true, false) => Look::Well,
        (true, true) => Look::Recovered,
        (false, _) => Look::Silent,
    }
}

/// What follows from what the cloud says.
pub fn plan(node: &Node, machine: Machine) -> Action {
    match machine {
        Machine::Gone if node.metadata.is_deleting() => Action::Leave,
        Machine::Gone => Action::Delete,
        Machine::ShutDown if !is_tainted(node) => Action::Taint,
        Machine::ShutDown | Machine::There => Action::Leave,
    }
}

fn is_shutdown(taint: &Taint) -> bool {
    taint.key == SHUTDOWN && taint.effect == NO_SCHEDULE
}

/// Whether a Node says that its machine is stopped.
pub fn is_tainted(node: &Node) -> bool {
    node.spec.taints.iter().any(is_shutdown)
}

/// The patch that taints a Node, or takes the taint away; none if there is nothing to change. The list is replaced as
/// a whole, so it must still be the one that was read.
pub fn tainting(node: &Node, tainted: bool) -> Option<Value> {
    if is_tainted(node) == tainted {
        return None;
    }
    let others = node.spec.taints.iter().filter(|taint| !is_shutdown(taint)).cloned();
    let own = tainted.then(|| Taint { key: SHUTDOWN.into(), effect: NO_SCHEDULE.into(), ..Taint::default() });
    let taints: Vec<Taint> = others.chain(own).collect();
    let taints = if taints.is_empty() { Value::Null } else { json!(taints) };
    let version = node.metadata.resource_version.to_string();
    Some(json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}}))
}
