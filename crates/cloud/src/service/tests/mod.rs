//! Tables for the steps of a Service, its nodes and its status.

mod backends;
mod plan;
mod status;

use flyball_api::{Node, Service};
use serde_json::{Value, json};

/// A Service of type LoadBalancer, with `more` over it.
fn service(more: Value) -> Service {
    let mut whole = json!({
        "metadata": {"namespace": "ns", "name": "s", "uid": "u"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}]},
    });
    json_patch_like(&mut whole, more);
    serde_json::from_value(whole).expect("a service")
}

fn node(name: &str, more: Value) -> Node {
    let mut whole = json!({"metadata": {"name": name}, "spec": {"providerID": format!("acme://{name}")}});
    json_patch_like(&mut whole, more);
    serde_json::from_value(whole).expect("a node")
}

/// Merges objects field by field; null removes a field.
fn json_patch_like(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                match value.is_null() {
                    true => drop(into.remove(&key)),
                    false => json_patch_like(into.entry(key).or_insert(Value::Null), value),
                }
            }
        }
        (into, from) => *into = from,
    }
}
