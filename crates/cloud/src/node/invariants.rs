//! What must hold whenever a Node was initialised.

use flyball_api::Node;

use super::labels::TWINS;
use super::plan::{UNINITIALIZED, is_uninitialized};
use crate::Metadata;

/// Panics if initialising turned `before` into `after` and should not have.
pub fn check(before: &Node, after: &Node, metadata: &Metadata) {
    assert!(!is_uninitialized(after), "the taint is gone");
    let others = |node: &Node| -> Vec<_> {
        node.spec.taints.iter().filter(|taint| taint.key != UNINITIALIZED).cloned().collect()
    };
    assert_eq!(others(before), others(after), "no other taint is touched");
    match before.spec.provider_id.is_empty() {
        true => assert_eq!(after.spec.provider_id, metadata.provider_id),
        false => assert_eq!(after.spec.provider_id, before.spec.provider_id, "it is never changed"),
    }
    let is_twin = |key: &str| TWINS.iter().any(|(beta, ga)| key == *beta || key == *ga);
    for (key, value) in before.metadata.labels.iter().filter(|(key, _)| !is_twin(key)) {
        assert_eq!(after.metadata.labels.get(key), Some(value), "{key} is kept");
    }
    for ((beta, ga), value) in TWINS.iter().zip([&metadata.zone, &metadata.region, &metadata.instance_type]) {
        if !value.is_empty() {
            assert_eq!(after.metadata.labels.get(beta), Some(value.as_str()));
            assert_eq!(after.metadata.labels.get(ga), Some(value.as_str()));
        }
    }
    assert_eq!(before.status, after.status, "the status is written apart");
}
