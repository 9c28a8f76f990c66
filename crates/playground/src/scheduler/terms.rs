//! Node selectors of pods and volumes.

use flyball_api::node::Node;
use flyball_common::nodeaffinity::NodeSelector;

use crate::objects::Pod;

/// Whether a pod's `nodeSelector` and required node affinity accept a node.
pub(super) fn accepts(pod: &Pod, node: &Node) -> bool {
    let labels = &node.metadata.labels;
    let selected = pod.spec.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value));
    let required = pod.spec.affinity.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    selected && required.is_none_or(|selector| matches(selector, node))
}

/// Whether a selector accepts a node.
pub(super) fn matches(selector: &NodeSelector, node: &Node) -> bool {
    selector.matches(&node.metadata.name, &node.metadata.labels)
}
