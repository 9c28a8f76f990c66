//! What must hold for whatever is decided about a Service.

use super::plan::{Action, View, needs_cleanup, plan, wants_balancer};

/// Panics if a decision about a Service should not have been made.
pub fn check(view: &View<'_>) {
    let service = view.service;
    let action = plan(view);
    if matches!(action, Action::Ensure | Action::Redirect) {
        assert!(wants_balancer(service), "nobody gets a load balancer unasked");
        assert!(!service.metadata.is_deleting(), "nothing is made for a Service that is going");
    }
    assert!(!needs_cleanup(service) || action == Action::CleanUp, "what is not wanted goes");
    if action == Action::Redirect {
        let done = view.done.expect("only what was made can be pointed elsewhere");
        assert!(done.ensured.is_some() && done.backends != *view.backends);
    }
}
