//! Tables for the initialisation of Nodes, their labels and their addresses.

mod addresses;
mod labels;
mod plan;

use flyball_api::Node;
use serde_json::{Value, json};

/// A Node with the given labels (`a=1 b=2`), taints (keys) and further fields.
pub(crate) fn node(labels: &str, taints: &str, more: Value) -> Node {
    let labels: serde_json::Map<String, Value> = labels
        .split_whitespace()
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect();
    let taints: Vec<Value> =
        taints.split_whitespace().map(|key| json!({"key": key, "effect": "NoSchedule"})).collect();
    let mut node = json!({
        "metadata": {"name": "n", "uid": "u", "labels": labels},
        "spec": {"taints": taints},
    });
    merge(&mut node, more);
    serde_json::from_value(node).expect("a node")
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
