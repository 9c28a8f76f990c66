//! Which Nodes are tainted, untainted and deleted in a round. Pure.

use std::sync::Arc;

use flyball_api::Node;
use flyball_api::taint::Taint;
use flyball_client::Patch;
use flyball_runtime::events::ObjectRef;
use flyball_runtime::{Effect, ErrorKinds, Event, Message, Plan, Write};
use serde_json::{Value, json};

/// The taint of a Node whose machine is shut down.
pub const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
const NO_SCHEDULE: &str = "NoSchedule";

/// The state of the machine of a Node, from the cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    Gone,
    ShutDown,
    /// It exists and is not known to be shut down.
    Exists,
}

/// A Node, and the state of its machine, if it was looked up in the cloud.
#[derive(Debug, Clone)]
pub struct Observed {
    pub node: Arc<Node>,
    pub machine: Option<Machine>,
}

/// The writes for all Nodes, concurrently.
pub fn plan(nodes: &[Observed]) -> Plan {
    Plan::of([Effect::concurrent(
        nodes.iter().filter_map(|observed| plan_node(&observed.node, observed.machine)),
    )])
}

/// Whether the machine of a Node has to be looked up in the cloud.
pub fn needs_lookup(node: &Node) -> bool {
    !node.is_ready()
}

fn plan_node(node: &Node, machine: Option<Machine>) -> Option<Effect> {
    match machine.filter(|_| needs_lookup(node)) {
        None if node.is_ready() => set_taint(node, false, "it is ready again").map(Effect::from),
        Some(Machine::Gone) if !node.metadata.is_deleting() => Some(delete(node)),
        Some(Machine::ShutDown) => set_taint(node, true, "its machine is shut down").map(Effect::from),
        None | Some(Machine::Gone | Machine::Exists) => None,
    }
}

fn delete(node: &Node) -> Effect {
    let name = &node.metadata.name;
    let about = || ObjectRef::named::<Node>("", name, &node.metadata.uid);
    let message = format!("Deleting node {name} because it does not exist in the cloud provider");
    let failed = Message::ThenError(format!("Failed deleting node {name}: "));
    let delete = Write::delete(node)
        .why("its machine does not exist any more")
        .ignore_only(ErrorKinds::NOT_FOUND)
        .on_failure(Event::warning("DeletingNodeFailed", failed).about(about()));
    Effect::sequence([Event::normal("DeletingNode", message).about(about()).into(), Effect::from(delete)])
        .into()
}

/// Adds or removes the taint; `None` if there is nothing to change.
fn set_taint(node: &Node, tainted: bool, why: &str) -> Option<Write> {
    let uid = node.metadata.uid.clone();
    let patch = move |node: &Node| {
        taint_patch(node, tainted).filter(|_| node.metadata.uid == uid).map(Patch::Strategic)
    };
    Some(Write::patch_retry_on_conflict(node, patch)?.why(why).ignore(ErrorKinds::NOT_FOUND))
}

fn is_shutdown(taint: &Taint) -> bool {
    taint.key == SHUTDOWN && taint.effect == NO_SCHEDULE
}

pub fn is_tainted(node: &Node) -> bool {
    node.spec.taints.iter().any(is_shutdown)
}

/// The patch that adds or removes the taint; `None` if there is nothing to change. It replaces the whole list, so it carries
/// the resourceVersion that was read.
pub fn taint_patch(node: &Node, tainted: bool) -> Option<Value> {
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
