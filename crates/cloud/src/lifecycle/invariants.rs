//! What must hold for whatever is decided about a Node.

use flyball_api::Node;

use super::plan::{Action, Look, Machine, is_tainted, look, plan};

/// Panics if a decision about a Node should not have been made.
pub fn check(node: &Node, machine: Machine) {
    let look = look(node);
    assert_eq!(look == Look::Silent, !node.is_ready(), "a Node that is Ready is not looked up");
    assert!(look != Look::Recovered || is_tainted(node), "a taint that is not there need not go");
    match plan(node, machine) {
        Action::Delete => assert_eq!(machine, Machine::Gone, "only the Node of a machine that is gone goes"),
        Action::Taint => assert!(machine == Machine::ShutDown && !is_tainted(node)),
        Action::Leave => {
            assert!(machine != Machine::Gone || node.metadata.is_deleting());
            assert!(machine != Machine::ShutDown || is_tainted(node));
        }
    }
}
