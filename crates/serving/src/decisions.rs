//! The decision log as `/debug/decisions` shows it.

use flyball_runtime::decisions::{Decision, DecisionLog};
use serde_json::Value;

use crate::{DecisionFilter, DecisionSource};

impl DecisionSource for DecisionLog {
    fn recent(&self, filter: &DecisionFilter) -> Vec<Value> {
        let found = DecisionLog::recent(self, filter.limit, |decision| matches(filter, decision));
        found.iter().filter_map(|decision| serde_json::to_value(decision).ok()).collect()
    }
}

/// By object: what was done to it, and what was done for it. By parts of its name: what was done to such objects.
fn matches(filter: &DecisionFilter, decision: &Decision) -> bool {
    let DecisionFilter { controller, kind, namespace, name, .. } = filter;
    if !controller.is_empty() && decision.controller != controller {
        return false;
    }
    if !kind.is_empty() && !name.is_empty() {
        return decision.concerns(kind, namespace, name);
    }
    let target = &decision.target;
    (kind.is_empty() || target.kind.eq_ignore_ascii_case(kind))
        && (namespace.is_empty() || target.namespace == *namespace)
        && (name.is_empty() || target.name == *name)
}
