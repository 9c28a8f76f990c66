//! Whether a node fits a node selector term.

use flyball_api::node::Node;

use crate::objects::{NodeSelector, NodeSelectorTerm, Pod, Requirement};

/// Whether a pod's `nodeSelector` and required node affinity accept a node.
pub(super) fn accepts(pod: &Pod, node: &Node) -> bool {
    let labels = &node.metadata.labels;
    let selected = pod.spec.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value));
    let required = pod.spec.affinity.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    selected && required.is_none_or(|selector| matches(selector, node))
}

/// Whether one of the terms matches. A selector without terms matches nothing.
pub(super) fn matches(selector: &NodeSelector, node: &Node) -> bool {
    selector.node_selector_terms.iter().any(|term| matches_term(term, node))
}

/// Whether all requirements hold. A term without requirements matches nothing.
pub(super) fn matches_term(term: &NodeSelectorTerm, node: &Node) -> bool {
    let empty = term.match_expressions.is_empty() && term.match_fields.is_empty();
    let labels = &node.metadata.labels;
    let expressions = term.match_expressions.iter().all(|need| holds(need, labels.get(&need.key)));
    let name = Some(node.metadata.name.as_str());
    let fields =
        term.match_fields.iter().all(|need| holds(need, name.filter(|_| need.key == "metadata.name")));
    !empty && expressions && fields
}

fn holds(need: &Requirement, value: Option<&str>) -> bool {
    let listed = |value: &str| need.values.iter().any(|wanted| wanted == value);
    let compared = |fits: fn(i64, i64) -> bool| {
        let (Some(value), [bound]) = (value, &need.values[..]) else { return false };
        matches!((value.parse(), bound.parse()), (Ok(value), Ok(bound)) if fits(value, bound))
    };
    match need.operator.as_str() {
        "In" => value.is_some_and(listed),
        "NotIn" => !value.is_some_and(listed),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared(|value, bound| value > bound),
        "Lt" => compared(|value, bound| value < bound),
        _ => false,
    }
}
