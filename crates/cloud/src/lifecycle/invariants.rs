//! What must hold for every plan about Nodes; for tables, properties and the simulator.

use flyball_api::Node;
use flyball_client::Verb;
use flyball_runtime::{Plan, Write};

use super::plan::{Machine, Observed, is_tainted};

/// Checks a plan against the Nodes that were observed.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(nodes: &[Observed], plan: &Plan) -> Result<(), String> {
    let writes = plan.writes();
    for Observed { node, machine } in nodes {
        let writes: Vec<_> = writes.iter().filter(|write| write.key.name == node.metadata.name).collect();
        check_node(node, *machine, &writes).map_err(|rule| format!("{rule}: {node:?}, planned {plan}"))?;
    }
    Ok(())
}

fn check_node(node: &Node, machine: Option<Machine>, writes: &[&&Write]) -> Result<(), &'static str> {
    let (is_ready, is_tainted) = (node.is_ready(), is_tainted(node));
    let deletes = writes.iter().any(|write| write.verb() == Verb::Delete);
    let patches = writes.iter().any(|write| write.verb() == Verb::Patch);
    let is_shut_down = machine == Some(Machine::ShutDown);
    let rules = [
        ("at most one write per Node", writes.len() <= 1),
        ("no Ready Node is deleted", !deletes || !is_ready),
        ("only Nodes without a machine are deleted", !deletes || machine == Some(Machine::Gone)),
        (
            "Nodes without a machine are deleted",
            deletes || is_ready || machine != Some(Machine::Gone) || node.metadata.is_deleting(),
        ),
        ("a Ready Node only loses the taint", !is_ready || patches == is_tainted),
        (
            "a Node that is not Ready only gets the taint",
            is_ready || patches == (is_shut_down && !is_tainted),
        ),
    ];
    rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(rule, _)| Err(rule))
}
