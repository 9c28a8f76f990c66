//! What is to be done for a Node, and what it looks like once its cloud has told all. Pure.

use std::collections::BTreeMap;

use flyball_api::Node;
use serde_json::{Map, Value, json};
use smol_str::SmolStr;

use super::addresses::{NodeIpProblem, honoured};
use super::labels;
use crate::Metadata;

/// The taint by which a kubelet asks for initialisation.
pub const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    Nothing,
    /// What its cloud knows about its machine.
    Initialise,
    /// These labels, which have drifted from their twins.
    Relabel(BTreeMap<&'static str, SmolStr>),
}

/// What is to be done for a Node.
pub fn plan(node: &Node) -> Work {
    if is_uninitialized(node) {
        return Work::Initialise;
    }
    match labels::drifted(&node.metadata.labels) {
        drifted if drifted.is_empty() => Work::Nothing,
        drifted => Work::Relabel(drifted),
    }
}

/// Whether a Node waits for its initialisation.
pub fn is_uninitialized(node: &Node) -> bool {
    node.spec.taints.iter().any(|taint| taint.key == UNINITIALIZED)
}

/// Why what a cloud says is not enough to initialise a Node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Without a provider ID no machine would ever be found, and it cannot be set later.
    #[error("cloud provider does not set node provider ID for node {0}")]
    NoProviderId(SmolStr),
    /// The kubelet wants an address that the machine does not have.
    #[error("provided node ip for node {node:?} is not valid")]
    NodeIp {
        node: SmolStr,
        #[source]
        source: NodeIpProblem,
    },
}

/// Whether a Node can be initialised with what its cloud says.
pub fn check(node: &Node, metadata: &Metadata) -> Result<(), Unfit> {
    let name = &node.metadata.name;
    if metadata.provider_id.is_empty() && node.spec.provider_id.is_empty() {
        return Err(Unfit::NoProviderId(name.clone()));
    }
    let fits = honoured(node, metadata.addresses.clone());
    fits.map(|_| ()).map_err(|source| Unfit::NodeIp { node: name.clone(), source })
}

/// A Node as the server has it (`live`, parsed as `node`) made complete and free for pods.
pub fn initialised(mut live: Value, node: &Node, metadata: &Metadata) -> Value {
    if node.spec.provider_id.is_empty() && !metadata.provider_id.is_empty() {
        object(&mut live, "spec").insert("providerID".to_owned(), json!(metadata.provider_id));
    }
    let new = labels::initial(metadata, &node.metadata.labels);
    if !new.is_empty()
        && let Some(of_meta) =
            object(&mut live, "metadata").entry("labels").or_insert(json!({})).as_object_mut()
    {
        of_meta.extend(new.into_iter().map(|(key, value)| (key.to_string(), json!(value))));
    }
    if let Some(taints) = object(&mut live, "spec").get_mut("taints").and_then(Value::as_array_mut) {
        taints.retain(|taint| taint["key"] != UNINITIALIZED);
    }
    live
}

/// The object in a field, made if need be. What is not an object becomes one: the server would not have it otherwise.
fn object<'a>(value: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !value[field].is_object() {
        value[field] = json!({});
    }
    match &mut value[field] {
        Value::Object(map) => map,
        _ => unreachable!("it was made an object"),
    }
}

/// The patch that brings labels in line with their twins.
pub fn relabelling(node: &Node, labels: &BTreeMap<&'static str, SmolStr>) -> Value {
    json!({"metadata": {"uid": node.metadata.uid, "labels": labels}})
}
