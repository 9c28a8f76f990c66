//! What must hold for every initialisation of a Node; for tables, properties and the simulator.

use flyball_api::Node;
use flyball_runtime::Write;
use serde::Deserialize;

use super::labels::TWINS;
use super::plan::{UNINITIALIZED, is_uninitialized};
use crate::Metadata;

/// Checks the write that initialises a Node.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(before: &Node, write: &Write, metadata: &Metadata) -> Result<(), String> {
    let body = write.body().unwrap_or_default();
    let after = Node::deserialize(&body).map_err(|error| format!("not a Node: {error}"))?;
    let others = |node: &Node| -> Vec<_> {
        node.spec.taints.iter().filter(|taint| taint.key != UNINITIALIZED).cloned().collect()
    };
    let provider_id = match before.spec.provider_id.is_empty() {
        true => &metadata.provider_id,
        false => &before.spec.provider_id,
    };
    let is_twin = |key: &str| TWINS.iter().any(|(beta, ga)| key == *beta || key == *ga);
    let has = |key: &str, value: &str| after.metadata.labels.get(key) == Some(value);
    let mut foreign = before.metadata.labels.iter().filter(|(key, _)| !is_twin(key));
    let mut known = TWINS.iter().zip([&metadata.zone, &metadata.region, &metadata.instance_type]);
    let rules = [
        ("the taint is removed", !is_uninitialized(&after)),
        ("other taints are kept", others(before) == others(&after)),
        ("the provider ID is set once", after.spec.provider_id == *provider_id),
        ("other labels are kept", foreign.all(|(key, value)| has(key, value))),
        (
            "both keys of a known label are set",
            known.all(|((beta, ga), value)| value.is_empty() || (has(beta, value) && has(ga, value))),
        ),
        ("the status is not part of it", before.status == after.status),
    ];
    let broken = rules.iter().find(|(_, holds)| !holds);
    broken.map_or(Ok(()), |(rule, _)| Err(format!("{rule}: {before:?} became {after:?}")))
}
